#include "cache/prefix_index.h"

#include <algorithm>

#include "base/check.h"
#include "base/rng.h"

namespace millrace {
namespace {

// Of blocks that follow the same prefix with the same token. A step of this walk is a cache miss or
// two, about 0.1 us, and what it saves at most is one block's tokens.
constexpr int32_t kNumSeenMax = 16;

// Where blocks that begin alike are listed. Both its inputs are as good as random or compared
// later.
Hash128 list_of(Hash128 before, TokenId first) {
  return {.low = mix64(before.low + static_cast<uint64_t>(first)), .high = before.high};
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
  whole_.reserve(static_cast<size_t>(num_blocks));
  newest_.reserve(static_cast<size_t>(num_blocks));
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

void PrefixIndex::enter_whole(
    BlockId block, Hash128 before, Hash128 through, std::span<const TokenId> tokens
) {
  CHECK(tokens.size() == static_cast<size_t>(block_size_), "a whole block of tokens");
  enter(block, before, tokens);
  const bool is_new = whole_.emplace(through, block).second;
  // Two prefixes of one hash: the second is found by its beginning only.
  if (is_new) at(block).through = through;
}

void PrefixIndex::erase(BlockId block) {
  if (!contains(block)) return;
  unlink(block);
  if (at(block).through) whole_.erase(*at(block).through);
  at(block) = {};
}

std::optional<BlockId> PrefixIndex::find_whole(
    Hash128 before, Hash128 through, std::span<const TokenId> tokens
) const {
  const auto found = whole_.find(through);
  if (found == whole_.end()) return std::nullopt;
  const BlockId block = found->second;
  const bool is_same =
      at(block).before == before && std::ranges::equal(this->tokens(block), tokens);
  return is_same ? std::optional(block) : std::nullopt;
}

std::optional<BlockPart> PrefixIndex::find_part(Hash128 before, std::span<const TokenId> tokens)
    const {
  if (tokens.empty()) return std::nullopt;
  const auto found = newest_.find(list_of(before, tokens[0]));
  if (found == newest_.end()) return std::nullopt;
  std::optional<BlockPart> best;
  std::optional<BlockId> block = found->second;
  for (int32_t i = 0; block && i < kNumSeenMax; ++i, block = at(*block).older) {
    if (at(*block).before != before) continue;
    const int32_t num_tokens = num_common(this->tokens(*block), tokens);
    if (num_tokens > (best ? best->num_tokens : 0)) best = {*block, num_tokens};
    if (num_tokens == static_cast<int32_t>(tokens.size())) break;
  }
  return best;
}

void PrefixIndex::link(BlockId block) {
  const auto [newest, is_first] =
      newest_.try_emplace(list_of(at(block).before, *tokens_at(block)), block);
  if (!is_first) {
    at(block).older = newest->second;
    at(newest->second).newer = block;
    newest->second = block;
  }
  ++num_entered_;
}

void PrefixIndex::unlink(BlockId block) {
  const Entry& entry = at(block);
  if (entry.older) at(*entry.older).newer = entry.newer;
  if (entry.newer) {
    at(*entry.newer).older = entry.older;
  } else {
    const auto newest = newest_.find(list_of(entry.before, *tokens_at(block)));
    CHECK(newest != newest_.end() && newest->second == block, "a block is not in its list");
    if (entry.older) {
      newest->second = *entry.older;
    } else {
      newest_.erase(newest);
    }
  }
  --num_entered_;
}

void PrefixIndex::check_invariants() const {
  int32_t num_entered = 0;
  size_t num_whole = 0;
  size_t num_newest = 0;
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
      ++num_whole;
      CHECK(entry.num_tokens == block_size_, "a part of a block is listed as a whole one");
      const auto found = whole_.find(*entry.through);
      CHECK(found != whole_.end() && found->second == block, "a whole block cannot be found");
    }
    if (entry.older) CHECK(at(*entry.older).newer == block, "a list is linked one way only");
    if (entry.newer) continue;
    ++num_newest;
    const auto newest = newest_.find(list_of(entry.before, tokens(block)[0]));
    CHECK(newest != newest_.end() && newest->second == block, "a list begins elsewhere");
  }
  CHECK(num_entered == num_entered_, "entries are miscounted");
  CHECK(num_whole == whole_.size(), "a hash leads to a block that was erased");
  CHECK(num_newest == newest_.size(), "a list leads to a block that was erased");
}

}  // namespace millrace
