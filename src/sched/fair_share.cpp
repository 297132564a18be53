#include "sched/fair_share.h"

#include <algorithm>
#include <optional>

#include "base/check.h"

namespace millrace {

void FairShare::enter(TenantId tenant) {
  const bool is_back = tenants_[tenant].num_sequences == 0;
  if (is_back) {
    std::optional<int64_t> least;
    for (const auto& [id, other] : tenants_) {
      if (other.num_sequences > 0)
        least = std::min(least.value_or(other.num_served), other.num_served);
    }
    Tenant& back = tenants_[tenant];
    back.num_served = std::max(back.num_served, least.value_or(0));
  }
  ++tenants_[tenant].num_sequences;
  ++num_sequences_;
}

void FairShare::leave(TenantId tenant) {
  CHECK(tenants_[tenant].num_sequences > 0, "a sequence of the tenant ended twice");
  --tenants_[tenant].num_sequences;
  if (--num_sequences_ == 0) tenants_.clear();
}

int64_t FairShare::num_served(TenantId tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.num_served;
}

}  // namespace millrace
