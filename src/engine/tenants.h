// Who has how many sequences under way. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/id.h"

namespace millrace {

class Tenants {
 public:
  // Beyond so many names, all others share one id: names come from outside, and ids are for ever.
  static constexpr size_t kNumNamesMax = 1024;

  // The id of a name, the same each time; 0 for the empty one. Nothing happens if it throws.
  TenantId id_of(const std::string& name);

  void add(TenantId tenant, int32_t num_seqs);
  void remove(TenantId tenant, int32_t num_seqs);

  // More than an equal part of all sequences, of those who have any: never true of the only one.
  bool holds_more_than_its_share(TenantId tenant) const;

 private:
  std::unordered_map<std::string, TenantId> ids_;
  std::vector<int32_t> num_seqs_ = {0};  // [id]
  int32_t num_seqs_in_all_ = 0;
  int32_t num_active_ = 0;  // that have any
};

}  // namespace millrace
