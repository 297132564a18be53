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

  // Room for `num_strings` strings without growing.
  void reserve(size_t num_strings);

  // False where `key` is there already; its id stays. REQUIRES: id >= 0.
  bool insert(std::string_view key, TokenId id);

  std::optional<TokenId> find(std::string_view key) const;

  size_t size() const { return size_; }

 private:
  // A key of up to 16 bytes lies in its slot, so that finding it touches one cache line. A longer
  // one is `low` = its hash and `high` = its place in arena_.
  struct Slot {
    uint64_t low = 0;
    uint64_t high = 0;
    uint32_t size = 0;
    TokenId id = kNone;
  };
  static constexpr TokenId kNone = -1;

  // What a slot with `key` holds, but for the id and the place in the arena.
  static Slot pattern_of(std::string_view key);
  static uint64_t hash_of(const Slot& pattern);
  bool holds(const Slot& slot, const Slot& pattern, std::string_view key) const;
  // The slot that holds `key`, or the empty one where it would go. REQUIRES: there is an empty one.
  size_t find_slot(const Slot& pattern, std::string_view key) const;
  void grow(size_t num_slots);

  std::vector<Slot> slots_;  // a power of two, at most half full
  std::string arena_;
  size_t size_ = 0;
};

}  // namespace millrace
