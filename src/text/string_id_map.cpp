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

// Eight bytes at a time; keys are short, so the multiply of the finalizer dominates.
uint64_t hash_bytes(std::string_view key) {
  uint64_t hash = key.size() * 0x9e3779b97f4a7c15ULL;
  const char* data = key.data();
  size_t left = key.size();
  while (left > 8) {
    uint64_t word = 0;
    std::memcpy(&word, data, 8);
    hash = mix64(hash ^ word);
    data += 8;
    left -= 8;
  }
  uint64_t word = 0;
  if (left > 0) std::memcpy(&word, data, left);
  return mix64(hash ^ word);
}

}  // namespace

void StringIdMap::reserve(size_t num_strings, size_t num_bytes) {
  arena_.reserve(num_bytes);
  const size_t num_slots = std::bit_ceil(std::max<size_t>(16, num_strings * 2));
  if (num_slots > slots_.size()) grow(num_slots);
}

size_t StringIdMap::find_slot(std::string_view key, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.id == kNone) return i;
    if (slot.tag != tag || slot.size != key.size()) continue;
    if (std::memcmp(arena_.data() + slot.begin, key.data(), key.size()) == 0) return i;
  }
}

void StringIdMap::grow(size_t num_slots) {
  const std::vector<Slot> old = std::exchange(slots_, std::vector<Slot>(num_slots));
  for (const Slot& slot : old) {
    if (slot.id == kNone) continue;
    const std::string_view key(arena_.data() + slot.begin, slot.size);
    slots_[find_slot(key, hash_bytes(key))] = slot;
  }
}

bool StringIdMap::insert(std::string_view key, TokenId id) {
  CHECK(id >= 0, "a token id below zero");
  CHECK(arena_.size() + key.size() <= UINT32_MAX, "a vocabulary of more than 4 GiB");
  if (slots_.size() < (size_ + 1) * 2) grow(std::max<size_t>(16, slots_.size() * 2));
  const uint64_t hash = hash_bytes(key);
  Slot& slot = slots_[find_slot(key, hash)];
  if (slot.id != kNone) return false;
  slot = {
      .tag = static_cast<uint32_t>(hash >> 32),
      .id = id,
      .begin = static_cast<uint32_t>(arena_.size()),
      .size = static_cast<uint32_t>(key.size())};
  arena_.append(key);
  ++size_;
  return true;
}

std::optional<TokenId> StringIdMap::find(std::string_view key) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[find_slot(key, hash_bytes(key))];
  if (slot.id == kNone) return std::nullopt;
  return slot.id;
}

}  // namespace millrace
