#include "cache/prefix_cache.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace millrace {

PrefixCache::PrefixCache(const Options& options)
    : options_(options),
      pool_(options.num_blocks),
      index_(options.num_blocks, options.block_size),
      ends_of_blocks_(static_cast<size_t>(options.num_blocks)) {
  CHECK(options.num_hidden_slots >= 0, "fewer than no slots");
  prompt_ends_.reserve(static_cast<size_t>(options.num_hidden_slots));
  free_hidden_.reserve(static_cast<size_t>(options.num_hidden_slots));
  for (int32_t slot = options.num_hidden_slots - 1; slot >= 0; --slot) {
    free_hidden_.push_back(HiddenSlotId{slot});
  }
}

PrefixMatch PrefixCache::match(Prefix prefix, int32_t num_tokens_max) const {
  CHECK(num_tokens_max <= prefix.tokens.size(), "a match beyond the end");
  prefix.hashes.extend(prefix.tokens, block_size(), options_.hash_key);
  PrefixMatch match;
  std::vector<TokenId> buffer(static_cast<size_t>(block_size()));
  for (int32_t index = 0; (index + 1) * block_size() <= num_tokens_max; ++index) {
    const std::span<const TokenId> tokens = prefix.tokens.read(index * block_size(), buffer);
    const std::optional<BlockId> block =
        index_.find_whole(prefix.hashes.before(index), prefix.hashes.through(index), tokens);
    if (!block) break;
    match.blocks.push_back(*block);
    match.num_tokens += block_size();
  }
  const bool may_be_all = num_tokens_max == prefix.tokens.size();
  if (!may_be_all || !match_end(prefix, match)) {
    match_part(prefix, std::min(num_tokens_max, prefix.tokens.size() - 1), match);
  }
  return match;
}

// Completes a match of all whole blocks by the block in which this very prompt ended before.
bool PrefixCache::match_end(Prefix prefix, PrefixMatch& match) const {
  const int32_t num_rest = prefix.tokens.size() - match.num_tokens;
  if (num_rest >= block_size()) return false;
  const auto found = prompt_ends_.find(hash_of_end(prefix, prefix.tokens.size()));
  if (found == prompt_ends_.end()) return false;
  const BlockId block = found->second;
  if (num_rest == 0) {
    if (match.blocks.empty() || match.blocks.back() != block) return false;
  } else {
    std::vector<TokenId> rest(static_cast<size_t>(num_rest));
    prefix.tokens.copy(match.num_tokens, rest);
    const std::span<const TokenId> there = index_.tokens(block);
    const auto num_blocks = static_cast<int32_t>(match.blocks.size());
    if (index_.before(block) != prefix.hashes.before(num_blocks)) return false;
    if (there.size() < rest.size() || !std::equal(rest.begin(), rest.end(), there.begin())) {
      return false;
    }
    match.part = {.block = block, .num_tokens = num_rest};
    match.num_tokens += num_rest;
  }
  match.hidden = ends_of_blocks_[static_cast<size_t>(block.value)]->slot;
  return true;
}

// Continues a match into the block that begins like the rest, or gives up what is beyond the limit.
void PrefixCache::match_part(Prefix prefix, int32_t num_tokens_max, PrefixMatch& match) const {
  if (match.num_tokens > num_tokens_max) {
    // All of it is there, but the last token has to be computed once more, for its logits.
    const BlockId last = match.blocks.back();
    match.blocks.pop_back();
    match.num_tokens = num_tokens_max;
    if (block_size() > 1) match.part = {.block = last, .num_tokens = block_size() - 1};
    return;
  }
  std::vector<TokenId> rest(
      static_cast<size_t>(std::min(num_tokens_max - match.num_tokens, block_size()))
  );
  prefix.tokens.copy(match.num_tokens, rest);
  const auto num_blocks = static_cast<int32_t>(match.blocks.size());
  match.part = index_.find_part(prefix.hashes.before(num_blocks), rest);
  if (match.part) match.num_tokens += match.part->num_tokens;
}

int32_t PrefixCache::num_available_beside(const PrefixMatch& match) const {
  const auto is_idle = [this](BlockId block) { return pool_.is_idle(block); };
  return num_available() - static_cast<int32_t>(std::ranges::count_if(match.blocks, is_idle));
}

void PrefixCache::take(const PrefixMatch& match) {
  for (const BlockId block : match.blocks) pool_.add_reference(block);
  if (match.part && pool_.is_idle(match.part->block)) pool_.touch(match.part->block);
}

std::optional<std::vector<BlockId>> PrefixCache::try_allocate(size_t n) {
  if (n > static_cast<size_t>(num_available())) return std::nullopt;
  while (static_cast<size_t>(pool_.num_free()) < n) {
    const BlockId oldest = pool_.oldest_idle().value();
    forget(oldest);
    pool_.free_idle(oldest);
  }
  return pool_.try_allocate(n);
}

// The last block first: of a prefix, the end is given away before the beginning, without which it
// could not be found.
void PrefixCache::release(std::span<const BlockId> table) {
  for (auto block = table.rbegin(); block != table.rend(); ++block) {
    if (options_.keeps_idle_blocks && index_.contains(*block)) {
      pool_.release_to_idle(*block);
      continue;
    }
    if (pool_.num_references(*block) == 1) forget(*block);
    pool_.release(*block);
  }
}

void PrefixCache::discard(std::span<const BlockId> table) {
  for (const BlockId block : table) {
    if (pool_.num_references(block) == 1) forget(block);
  }
  release(table);
}

BlockId PrefixCache::keep(Prefix prefix, int32_t index, int32_t num_tokens, BlockId block) {
  CHECK(num_tokens > 0 && num_tokens <= block_size(), "tokens of one block");
  prefix.hashes.extend(prefix.tokens, block_size(), options_.hash_key);
  buffer_.resize(static_cast<size_t>(num_tokens));
  const std::span<const TokenId> tokens = prefix.tokens.read(index * block_size(), buffer_);
  const Hash128 before = prefix.hashes.before(index);
  if (num_tokens < block_size()) {
    index_.enter(block, before, tokens);
    return block;
  }
  const BlockId there = index_.enter_whole(block, before, prefix.hashes.through(index), tokens);
  if (there == block) return block;
  CHECK(pool_.num_references(block) == 1, "a block that is written is shared");
  pool_.add_reference(there);
  move_end(block, there);
  forget(block);
  pool_.release(block);
  return there;
}

std::optional<HiddenSlotId> PrefixCache::reserve_hidden(Prefix prompt) {
  if (free_hidden_.empty()) return std::nullopt;
  prompt.hashes.extend(prompt.tokens, block_size(), options_.hash_key);
  if (prompt_ends_.contains(hash_of_end(prompt, prompt.tokens.size()))) return std::nullopt;
  const HiddenSlotId slot = free_hidden_.back();
  free_hidden_.pop_back();
  return slot;
}

void PrefixCache::keep_hidden(Prefix prompt, BlockId block, HiddenSlotId slot) {
  CHECK(index_.contains(block), "a prompt ends in a block that cannot be found");
  const Hash128 hash = hash_of_end(prompt, prompt.tokens.size());
  if (!prompt_ends_.try_emplace(hash, block).second) return give_back(slot);
  std::optional<PromptEnd>& end = ends_of_blocks_[static_cast<size_t>(block.value)];
  if (end) {
    // Another prompt ended in the same block, at another token. The later one is kept.
    prompt_ends_.erase(end->prompt);
    give_back(end->slot);
  }
  end = {.prompt = hash, .slot = slot};
}

// Of the first `num_tokens` tokens, whether they fill their last block or not.
Hash128 PrefixCache::hash_of_end(Prefix prefix, int32_t num_tokens) const {
  const int32_t num_full = num_tokens / block_size();
  if (num_full * block_size() == num_tokens) return prefix.hashes.before(num_full);
  std::vector<TokenId> rest(static_cast<size_t>(num_tokens - num_full * block_size()));
  prefix.tokens.copy(num_full * block_size(), rest);
  return extend_prefix_hash(options_.hash_key, prefix.hashes.before(num_full), rest);
}

// `to` holds the same tokens: the prompt that ended in `from` ends there as well.
void PrefixCache::move_end(BlockId from, BlockId to) {
  std::optional<PromptEnd>& source = ends_of_blocks_[static_cast<size_t>(from.value)];
  std::optional<PromptEnd>& target = ends_of_blocks_[static_cast<size_t>(to.value)];
  if (!source || target) return;
  prompt_ends_.at(source->prompt) = to;
  target = std::exchange(source, std::nullopt);
}

void PrefixCache::forget(BlockId block) {
  index_.erase(block);
  std::optional<PromptEnd>& end = ends_of_blocks_[static_cast<size_t>(block.value)];
  if (!end) return;
  prompt_ends_.erase(end->prompt);
  give_back(end->slot);
  end.reset();
}

void PrefixCache::check_invariants(int32_t num_reserved) const {
  pool_.check_invariants();
  index_.check_invariants();
  size_t num_ends = 0;
  std::vector<bool> is_used(static_cast<size_t>(options_.num_hidden_slots), false);
  const auto use = [&is_used](HiddenSlotId slot) {
    CHECK(!is_used[static_cast<size_t>(slot.value)], "a hidden slot is used twice");
    is_used[static_cast<size_t>(slot.value)] = true;
  };
  for (int32_t i = 0; i < pool_.num_blocks(); ++i) {
    const BlockId block{i};
    const bool is_free = !pool_.is_idle(block) && pool_.num_references(block) == 0;
    CHECK(!(is_free && index_.contains(block)), "a free block can be found");
    CHECK(!pool_.is_idle(block) || index_.contains(block), "an idle block cannot be found");
    CHECK(!pool_.is_idle(block) || options_.keeps_idle_blocks, "an idle block that is not wanted");
    const std::optional<PromptEnd>& end = ends_of_blocks_[static_cast<size_t>(i)];
    if (!end) continue;
    CHECK(index_.contains(block), "a prompt ends in a block that cannot be found");
    const auto found = prompt_ends_.find(end->prompt);
    CHECK(found != prompt_ends_.end() && found->second == block, "a prompt's end is lost");
    use(end->slot);
    ++num_ends;
  }
  CHECK(num_ends == prompt_ends_.size(), "a prompt's end leads to a block that was given away");
  for (const HiddenSlotId slot : free_hidden_) use(slot);
  CHECK(
      static_cast<int32_t>(num_ends + free_hidden_.size()) + num_reserved ==
          options_.num_hidden_slots,
      "a hidden slot was lost"
  );
}

}  // namespace millrace
