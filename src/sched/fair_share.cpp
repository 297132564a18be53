#include "sched/fair_share.h"

#include <algorithm>

#include "base/check.h"

namespace millrace {

void FairShare::enter(TenantId tenant) {
  tenants_.try_emplace(tenant);
  ++num_sequences_;
}

void FairShare::leave(TenantId tenant) {
  CHECK(tenants_.contains(tenant) && num_sequences_ > 0, "a sequence of the tenant ended twice");
  if (--num_sequences_ > 0) return;
  tenants_.clear();
  last_waiting_.reset();
}

void FairShare::begin_to_wait(TenantId tenant) {
  Tenant& waiting = tenants_.at(tenant);
  if (waiting.num_waiting == 0) {
    waiting.num_served = std::max(waiting.num_served, least_served_of_waiting());
  }
  ++waiting.num_waiting;
}

void FairShare::stop_waiting(TenantId tenant) {
  Tenant& waiting = tenants_.at(tenant);
  CHECK(waiting.num_waiting > 0, "a sequence of the tenant stopped waiting twice");
  if (--waiting.num_waiting == 0) last_waiting_ = tenant;
}

int64_t FairShare::num_served(TenantId tenant) const {
  const auto found = tenants_.find(tenant);
  return found == tenants_.end() ? 0 : found->second.num_served;
}

int64_t FairShare::least_served_of_waiting() const {
  std::optional<int64_t> least;
  for (const auto& [id, tenant] : tenants_) {
    if (tenant.num_waiting == 0) continue;
    least = std::min(least.value_or(tenant.num_served), tenant.num_served);
  }
  if (least) return *least;
  return last_waiting_ ? num_served(*last_waiting_) : 0;
}

}  // namespace millrace
