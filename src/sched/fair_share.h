// Whose turn it is among tenants: the one that has been served least. After the virtual token
// counter of Sheng et al., "Fairness in Serving Large Language Models" (OSDI 2024): while two
// tenants have requests, what they are served differs by no more than what a few requests are. A
// prompt token counts 1 and an output token 2, since it takes a step of its own. Pure; owned by the
// scheduler.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "base/id.h"

namespace millrace {

class FairShare {
 public:
  // A sequence of the tenant is there, or has ended. Who comes back after a pause is not owed what
  // others were served meanwhile; who has just been served much keeps that, however it left.
  void enter(TenantId tenant);
  void leave(TenantId tenant);

  void charge(TenantId tenant, int64_t num_tokens) { tenants_[tenant].num_served += num_tokens; }
  int64_t num_served(TenantId tenant) const;

 private:
  struct Tenant {
    int64_t num_served = 0;
    int32_t num_sequences = 0;
  };
  std::unordered_map<TenantId, Tenant> tenants_;  // forgotten when nobody has a sequence
  int32_t num_sequences_ = 0;
};

}  // namespace millrace
