// Strings to token ids, in one flat table: a vocabulary is read far more often than it is built.
// Immutable once built; callable from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"

namespace millrace {

class StringIdMap {
 public:
  StringIdMap() = default;

  // Room for `num_strings` strings of `num_bytes` in all, without growing.
  void reserve(size_t num_strings, size_t num_bytes);

  // False where `key` is there already; its id stays. REQUIRES: id >= 0.
  bool insert(std::string_view key, TokenId id);

  std::optional<TokenId> find(std::string_view key) const;

  size_t size() const { return size_; }

 private:
  struct Slot {
    uint32_t tag = 0;  // upper half of the hash
    TokenId id = kNone;
    uint32_t begin = 0;  // in arena_
    uint32_t size = 0;
  };
  static constexpr TokenId kNone = -1;

  // The slot that holds `key`, or the empty one where it would go. REQUIRES: there is an empty one.
  size_t find_slot(std::string_view key, uint64_t hash) const;
  void grow(size_t num_slots);

  std::vector<Slot> slots_;  // a power of two, at most half full
  std::string arena_;
  size_t size_ = 0;
};

}  // namespace millrace
