// Open addressing with linear probing.
#include "text/string_id_map.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace millrace {
namespace {

constexpr size_t kInlineSizeMax = 16;

template <class Word>
uint64_t load(const char* data) {
  Word word = 0;
  std::memcpy(&word, data, sizeof(Word));
  return word;
}

uint64_t hash_long(std::string_view key) {
  uint64_t hash = key.size();
  size_t pos = 0;
  for (; pos + 8 < key.size(); pos += 8) hash = mix64(hash ^ load<uint64_t>(key.data() + pos));
  return mix64(hash ^ load<uint64_t>(key.data() + key.size() - 8));
}

}  // namespace

// Together with the size, the two words say every byte: the loads from both ends overlap.
StringIdMap::Slot StringIdMap::pattern_of(std::string_view key) {
  Slot slot;
  const size_t size = key.size();
  const char* data = key.data();
  slot.size = static_cast<uint32_t>(size);
  if (size > kInlineSizeMax) {
    slot.low = hash_long(key);
  } else if (size >= 8) {
    slot.low = load<uint64_t>(data);
    slot.high = load<uint64_t>(data + size - 8);
  } else if (size >= 4) {
    slot.low = load<uint32_t>(data) | load<uint32_t>(data + size - 4) << 32;
  } else if (size > 0) {
    slot.low = load<uint8_t>(data) | load<uint8_t>(data + size / 2) << 8 |
               load<uint8_t>(data + size - 1) << 16;
  }
  return slot;
}

uint64_t StringIdMap::hash_of(const Slot& pattern) {
  const uint64_t high = pattern.size > kInlineSizeMax ? 0 : pattern.high;
  return mix64(pattern.low ^ (high * 0x9e3779b97f4a7c15ULL) ^ pattern.size);
}

bool StringIdMap::holds(const Slot& slot, const Slot& pattern, std::string_view key) const {
  if (slot.low != pattern.low || slot.size != pattern.size) return false;
  if (key.size() <= kInlineSizeMax) return slot.high == pattern.high;
  return std::memcmp(arena_.data() + slot.high, key.data(), key.size()) == 0;
}

void StringIdMap::reserve(size_t num_strings) {
  const size_t num_slots = std::bit_ceil(std::max<size_t>(16, num_strings * 2));
  if (num_slots > slots_.size()) grow(num_slots);
}

size_t StringIdMap::find_slot(const Slot& pattern, std::string_view key) const {
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash_of(pattern) & mask;; i = (i + 1) & mask) {
    if (slots_[i].id == kNone || holds(slots_[i], pattern, key)) return i;
  }
}

void StringIdMap::grow(size_t num_slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(num_slots));
  for (const Slot& slot : old) {
    if (slot.id == kNone) continue;
    // All keys differ, so the first empty slot is the place.
    size_t i = hash_of(slot) & (num_slots - 1);
    while (slots_[i].id != kNone) i = (i + 1) & (num_slots - 1);
    slots_[i] = slot;
  }
}

bool StringIdMap::insert(std::string_view key, TokenId id) {
  CHECK(id >= 0, "a token id below zero");
  CHECK(key.size() <= UINT32_MAX, "a token of more than 4 GiB");
  if (slots_.size() < (size_ + 1) * 2) grow(std::max<size_t>(16, slots_.size() * 2));
  Slot pattern = pattern_of(key);
  Slot& slot = slots_[find_slot(pattern, key)];
  if (slot.id != kNone) return false;
  pattern.id = id;
  if (key.size() > kInlineSizeMax) {
    pattern.high = arena_.size();
    arena_.append(key);
  }
  slot = pattern;
  ++size_;
  return true;
}

std::optional<TokenId> StringIdMap::find(std::string_view key) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[find_slot(pattern_of(key), key)];
  if (slot.id == kNone) return std::nullopt;
  return slot.id;
}

}  // namespace millrace
