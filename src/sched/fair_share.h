// Whose turn it is among tenants: the one that has been served least. After the virtual token
// counter of Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024): while two
// tenants have requests that wait, what they are served differs by no more than what a few requests
// are. A prompt token counts 1 and an output token 2, since it takes a step of its own. Pure; owned
// by the scheduler.
#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>

#include "base/id.h"

namespace millrace {

class FairShare {
 public:
  // A sequence of the tenant is there, or has ended. What a tenant was served is kept while anybody
  // has a sequence: who leaves and comes back has it still.
  void enter(TenantId tenant);
  void leave(TenantId tenant);

  // A sequence of the tenant begins to wait, or waits no more. Who begins to wait is not owed what
  // others were served while none of its own waited, even if some ran: it has what the one has that
  // was served least among those that wait, or the last one that waited.
  void begin_to_wait(TenantId tenant);
  void stop_waiting(TenantId tenant);

  void charge(TenantId tenant, int64_t num_tokens) { tenants_[tenant].num_served += num_tokens; }
  int64_t num_served(TenantId tenant) const;

 private:
  struct Tenant {
    int64_t num_served = 0;
    int32_t num_waiting = 0;
  };

  int64_t least_served_of_waiting() const;

  std::unordered_map<TenantId, Tenant> tenants_;  // forgotten when nobody has a sequence
  std::optional<TenantId> last_waiting_;          // of tenants_
  int32_t num_sequences_ = 0;
};

}  // namespace millrace
