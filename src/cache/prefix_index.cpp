#include "cache/prefix_index.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/rng.h"

namespace millrace {
namespace {

// Of blocks that follow the same prefix with the same token. A step of this walk is a cache miss or
// two, about 0.1 us, and what it saves at most is one block's tokens.
constexpr int32_t kNumSeenMax = 16;

// Where blocks that begin alike are listed, among others. A hash is as good as random already.
template <class Heads>
auto& list_of(Heads& heads, Hash128 before, TokenId first) {
  return heads[mix64(before.low + static_cast<uint64_t>(first)) & (heads.size() - 1)];
}

template <class Heads>
auto& list_of(Heads& heads, Hash128 through) {
  return heads[through.low & (heads.size() - 1)];
}

int32_t num_common(std::span<const TokenId> a, std::span<const TokenId> b) {
  return static_cast<int32_t>(
      std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin()
  );
}

}  // namespace

PrefixIndex::PrefixIndex(int32_t num_blocks, int32_t block_size) : block_size_(block_size) {
  CHECK(num_blocks >= 0 && block_size > 0, "blocks that cannot be");
  entries_.resize(static_cast<size_t>(num_blocks));
  tokens_.resize(static_cast<size_t>(num_blocks) * static_cast<size_t>(block_size));
  whole_.resize(std::bit_ceil(static_cast<size_t>(num_blocks)));
  newest_.resize(whole_.size());
}

std::span<const TokenId> PrefixIndex::tokens(BlockId block) const {
  const size_t begin = static_cast<size_t>(block.value) * static_cast<size_t>(block_size_);
  return std::span(tokens_).subspan(begin, static_cast<size_t>(at(block).num_tokens));
}

void PrefixIndex::enter(BlockId block, Hash128 before, std::span<const TokenId> tokens) {
  CHECK(!tokens.empty(), "a block without tokens cannot be found");
  CHECK(tokens.size() <= static_cast<size_t>(block_size_), "more tokens than a block holds");
  Entry& entry = at(block);
  const bool is_new = entry.num_tokens == 0;
  CHECK(is_new || entry.before == before, "a block that follows two prefixes");
  CHECK(entry.num_tokens <= static_cast<int32_t>(tokens.size()), "tokens were taken back");
  const auto num_known = static_cast<size_t>(entry.num_tokens);
  std::copy(
      tokens.begin() + static_cast<ptrdiff_t>(num_known), tokens.end(), tokens_at(block) + num_known
  );
  entry.before = before;
  entry.num_tokens = static_cast<int32_t>(tokens.size());
  if (is_new) link(block);
}

BlockId PrefixIndex::enter_whole(
    BlockId block, Hash128 before, Hash128 through, std::span<const TokenId> tokens
) {
  CHECK(tokens.size() == static_cast<size_t>(block_size_), "a whole block of tokens");
  const std::optional<BlockId> there = find_hash(through);
  if (there && holds(*there, before, tokens)) return *there;
  enter(block, before, tokens);
  // Two prefixes of one hash: the second is found by its beginning only.
  if (there) return block;
  std::optional<BlockId>& head = list_of(whole_, through);
  at(block).through = through;
  at(block).next_whole = std::exchange(head, block);
  return block;
}

std::optional<BlockId> PrefixIndex::find_hash(Hash128 through) const {
  std::optional<BlockId> block = list_of(whole_, through);
  while (block && at(*block).through != through) block = at(*block).next_whole;
  return block;
}

void PrefixIndex::erase(BlockId block) {
  if (!contains(block)) return;
  unlink(block);
  unlink_whole(block);
  at(block) = {};
}

std::optional<BlockId> PrefixIndex::find_whole(
    Hash128 before, Hash128 through, std::span<const TokenId> tokens
) const {
  const std::optional<BlockId> block = find_hash(through);
  return block && holds(*block, before, tokens) ? block : std::nullopt;
}

bool PrefixIndex::holds(BlockId block, Hash128 before, std::span<const TokenId> tokens) const {
  return at(block).before == before && std::ranges::equal(this->tokens(block), tokens);
}

std::optional<BlockPart> PrefixIndex::find_part(Hash128 before, std::span<const TokenId> tokens)
    const {
  if (tokens.empty()) return std::nullopt;
  std::optional<BlockPart> best;
  // Others in the list are passed over and not counted: which they are depends on the hash key, and
  // what is found must not. There are hardly any: the table has a list for each block.
  int32_t num_seen = 0;
  std::optional<BlockId> block = list_of(newest_, before, tokens[0]);
  for (; block && num_seen < kNumSeenMax; block = at(*block).older) {
    if (at(*block).before != before) continue;
    const int32_t num_tokens = num_common(this->tokens(*block), tokens);
    if (num_tokens == 0) continue;
    ++num_seen;
    if (num_tokens > (best ? best->num_tokens : 0)) best = {*block, num_tokens};
    if (num_tokens == static_cast<int32_t>(tokens.size())) break;
  }
  return best;
}

void PrefixIndex::link(BlockId block) {
  std::optional<BlockId>& newest = list_of(newest_, at(block).before, *tokens_at(block));
  if (newest) at(*newest).newer = block;
  at(block).older = std::exchange(newest, block);
  ++num_entered_;
}

void PrefixIndex::unlink(BlockId block) {
  const Entry& entry = at(block);
  std::optional<BlockId>& newest = list_of(newest_, entry.before, *tokens_at(block));
  if (entry.older) at(*entry.older).newer = entry.newer;
  (entry.newer ? at(*entry.newer).older : newest) = entry.older;
  --num_entered_;
}

void PrefixIndex::unlink_whole(BlockId block) {
  if (!at(block).through) return;
  std::optional<BlockId>* link = &list_of(whole_, *at(block).through);
  while (*link != block) {
    CHECK(link->has_value(), "a whole block is not in its list");
    link = &at(**link).next_whole;
  }
  *link = at(block).next_whole;
}

void PrefixIndex::check_invariants() const {
  int32_t num_entered = 0;
  size_t num_whole = 0;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const BlockId block{static_cast<int32_t>(i)};
    const Entry& entry = entries_[i];
    if (entry.num_tokens == 0) {
      CHECK(!entry.through && !entry.older && !entry.newer, "an empty entry is linked");
      continue;
    }
    ++num_entered;
    CHECK(entry.num_tokens <= block_size_, "more tokens than a block holds");
    if (entry.through) {
      CHECK(entry.num_tokens == block_size_, "a part of a block is listed as a whole one");
      CHECK(find_hash(*entry.through) == block, "a whole block cannot be found");
      ++num_whole;
    }
    if (entry.older) CHECK(at(*entry.older).newer == block, "a list is linked one way only");
    if (entry.newer) CHECK(at(*entry.newer).older == block, "a list is linked one way only");
    if (!entry.newer) {
      CHECK(list_of(newest_, entry.before, tokens(block)[0]) == block, "a list begins elsewhere");
    }
  }
  CHECK(num_entered == num_entered_, "entries are miscounted");
  size_t num_listed = 0;
  for (std::optional<BlockId> block : whole_) {
    for (; block; block = at(*block).next_whole) ++num_listed;
  }
  CHECK(num_whole == num_listed, "a hash leads to a block that was erased");
}

}  // namespace millrace
