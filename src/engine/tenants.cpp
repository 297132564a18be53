#include "engine/tenants.h"

#include <algorithm>

#include "base/check.h"

namespace millrace {

TenantId Tenants::id_of(const std::string& name) {
  if (name.empty()) return {};
  if (const auto found = ids_.find(name); found != ids_.end()) return found->second;
  const TenantId id{static_cast<int32_t>(std::min(ids_.size(), kNumNamesMax) + 1)};
  num_seqs_.resize(std::max(num_seqs_.size(), static_cast<size_t>(id.value) + 1), 0);
  if (ids_.size() < kNumNamesMax) ids_.emplace(name, id);
  return id;
}

void Tenants::add(TenantId tenant, int32_t num_seqs) {
  int32_t& count = num_seqs_[static_cast<size_t>(tenant.value)];
  if (count == 0) ++num_active_;
  count += num_seqs;
  num_seqs_in_all_ += num_seqs;
}

void Tenants::remove(TenantId tenant, int32_t num_seqs) {
  int32_t& count = num_seqs_[static_cast<size_t>(tenant.value)];
  CHECK(count >= num_seqs, "a tenant gives back more than it has");
  count -= num_seqs;
  num_seqs_in_all_ -= num_seqs;
  if (count == 0) --num_active_;
}

bool Tenants::holds_more_than_its_share(TenantId tenant) const {
  const int64_t count = num_seqs_[static_cast<size_t>(tenant.value)];
  return count * num_active_ > num_seqs_in_all_;
}

}  // namespace millrace
