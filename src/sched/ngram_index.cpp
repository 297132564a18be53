#include "sched/ngram_index.h"

#include <algorithm>

#include "base/rng.h"

namespace millrace {
namespace {

constexpr size_t kNumSlotsAtFirst = 64;

bool are_equal(const TokenView& tokens, int32_t end, int32_t other_end, int32_t length) {
  for (int32_t i = 1; i <= length; ++i) {
    if (tokens.at(end - i) != tokens.at(other_end - i)) return false;
  }
  return true;
}

}  // namespace

bool NgramIndex::extend(const TokenView& tokens, int32_t end, int32_t num_ends_max) {
  const int32_t stop = std::min(end, next_end_ + num_ends_max - 1);
  for (; next_end_ <= stop; ++next_end_) {
    const Hashes hashes = hashes_before(tokens, next_end_);
    const int32_t longest = std::min(options_.length_max, next_end_);
    for (int32_t length = options_.length_min; length <= longest; ++length) {
      const uint64_t hash = hashes[static_cast<size_t>(length) - 1];
      enter(tokens, {.hash = hash, .end = next_end_, .length = length});
    }
  }
  return next_end_ > end;
}

std::optional<int32_t> NgramIndex::find(
    const TokenView& tokens, const Hashes& hashes, int32_t length
) const {
  const auto index = static_cast<size_t>(length) - 1;
  const Table& table = tables_[index];
  if (table.ends.empty()) return std::nullopt;
  const Ngram ngram{.hash = hashes[index], .end = tokens.size(), .length = length};
  const int32_t end = table.ends[slot_of(table, tokens, ngram)];
  return end == 0 ? std::nullopt : std::optional(end);
}

// From the last token backwards, so that each length continues the one before it.
NgramIndex::Hashes NgramIndex::hashes_before(const TokenView& tokens, int32_t end) const {
  Hashes hashes = {};
  uint64_t hash = options_.hash_key;
  const int32_t longest = std::min(options_.length_max, end);
  for (int32_t length = 1; length <= longest; ++length) {
    hash = mix64(hash ^ static_cast<uint64_t>(tokens.at(end - length)));
    hashes[static_cast<size_t>(length) - 1] = hash;
  }
  return hashes;
}

// Where the n-gram is, or where it would be entered.
size_t NgramIndex::slot_of(const Table& table, const TokenView& tokens, const Ngram& ngram) {
  const size_t mask = table.ends.size() - 1;
  size_t slot = static_cast<size_t>(ngram.hash) & mask;
  while (table.ends[slot] != 0 && !are_equal(tokens, table.ends[slot], ngram.end, ngram.length)) {
    slot = (slot + 1) & mask;
  }
  return slot;
}

void NgramIndex::enter(const TokenView& tokens, const Ngram& ngram) {
  Table& table = table_of(ngram.length);
  if (2 * (table.num_used + 1) > table.ends.size()) grow(table, tokens, ngram.length);
  int32_t& end = table.ends[slot_of(table, tokens, ngram)];
  if (end == 0) ++table.num_used;
  end = ngram.end;
}

void NgramIndex::grow(Table& table, const TokenView& tokens, int32_t length) {
  const std::vector<int32_t> before = std::move(table.ends);
  table.ends.assign(std::max(kNumSlotsAtFirst, 2 * before.size()), 0);
  for (const int32_t end : before) {
    if (end == 0) continue;
    const Hashes hashes = hashes_before(tokens, end);
    const uint64_t hash = hashes[static_cast<size_t>(length) - 1];
    table.ends[slot_of(table, tokens, {.hash = hash, .end = end, .length = length})] = end;
  }
}

}  // namespace millrace
