// The KV blocks of all sequences, and the prefixes in them: blocks that hold the same tokens after
// the same tokens are shared, by sequences that run and by those to come. Host bookkeeping only: no
// device memory. Not thread-safe; owned by the scheduler.
//
// A block is free, in use (some block table refers to it) or idle (it holds a prefix that nobody
// uses now). Idle blocks are as good as free: they are given away when no free one is left, the one
// whose use lies longest back first, and of one sequence the last first. A block that is in use is
// never given away, nor written by two.
//
// Shared as it is: a whole block. Of a block that matches in its first tokens only, those are
// copied to a new block (StepPlan::copies), since two sequences would go on differently in it.
//
// An exact repeat of a whole prompt needs no forward pass: the hidden state at a prompt's end is
// kept in one of the model's hidden slots as long as the block in which the prompt ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/id.h"
#include "base/siphash.h"
#include "cache/block_pool.h"
#include "cache/prefix_hash.h"
#include "cache/prefix_index.h"
#include "cache/token_view.h"

namespace millrace {

// What of a sequence is there already.
struct PrefixMatch {
  std::vector<BlockId> blocks;         // whole ones, from the first on
  std::optional<BlockPart> part;       // of the block after them: to be copied
  std::optional<HiddenSlotId> hidden;  // of the last token, where all tokens are there
  int32_t num_tokens = 0;
};

class PrefixCache {
 public:
  struct Options {
    int32_t num_blocks = 0;
    int32_t block_size = 0;
    int32_t num_hidden_slots = 0;
    bool keeps_idle_blocks = true;  // no: a prefix is gone with the last sequence that uses it
    SipKey hash_key;
  };
  // REQUIRES: num_blocks >= 0, block_size > 0, num_hidden_slots >= 0.
  explicit PrefixCache(const Options& options);

  // A sequence as the cache sees it. `hashes` are extended as far as its tokens go.
  struct Prefix {
    TokenView tokens;
    PrefixHashes& hashes;
  };

  // What is there of the first `num_tokens_max` tokens; `hidden` only if these are all, and only if
  // a slot holds it. Nothing is taken yet.
  PrefixMatch match(Prefix prefix, int32_t num_tokens_max) const;

  // How many blocks can be had by a sequence that takes `match`, beside those of the match.
  int32_t num_available_beside(const PrefixMatch& match) const;
  int32_t num_available() const { return pool_.num_free() + pool_.num_idle(); }

  // A reference to each block of a match. It holds until then if nothing is allocated in between.
  void take(const PrefixMatch& match);

  // Takes `n` blocks with one reference each, or none. nullopt means "preempt someone", not
  // failure.
  std::optional<std::vector<BlockId>> try_allocate(size_t n);

  // Gives back one reference to each block of a table, in the order of the table.
  void release(std::span<const BlockId> table);

  // The same, of a sequence whose blocks hold what nobody should find: what only it uses is
  // forgotten.
  void discard(std::span<const BlockId> table);

  // The first `num_tokens` tokens of block `index` of a sequence have been computed: it can be
  // found from now on. Returns the block to use instead of `block`, with a reference taken and that
  // to `block` given back, if the same was there before.
  BlockId keep(Prefix prefix, int32_t index, int32_t num_tokens, BlockId block);

  // --- Exact repeats ---

  // A slot for the hidden state at the end of this prompt, if there is one to spare and none holds
  // it yet. It belongs to the caller until keep_hidden() or give_back().
  std::optional<HiddenSlotId> reserve_hidden(Prefix prompt);

  // The slot now holds the hidden state at the end of `prompt`, whose last tokens are in `block`.
  void keep_hidden(Prefix prompt, BlockId block, HiddenSlotId slot);
  void give_back(HiddenSlotId slot) { free_hidden_.push_back(slot); }

  const BlockPool& pool() const { return pool_; }
  int32_t block_size() const { return options_.block_size; }

  // CHECKs that blocks, prefixes and slots fit together. `num_reserved`: slots that callers hold.
  void check_invariants(int32_t num_reserved) const;

 private:
  struct PromptEnd {
    Hash128 prompt;  // key in prompt_ends_
    HiddenSlotId slot;
  };

  Hash128 hash_of_end(Prefix prefix, int32_t num_tokens) const;
  void match_part(Prefix prefix, int32_t num_tokens_max, PrefixMatch& match) const;
  bool match_end(Prefix prefix, PrefixMatch& match) const;
  void move_end(BlockId from, BlockId to);
  void forget(BlockId block);

  const Options options_;
  BlockPool pool_;
  PrefixIndex index_;
  std::unordered_map<Hash128, BlockId>
      prompt_ends_;  // where a prompt ends whose hidden state is kept
  std::vector<std::optional<PromptEnd>> ends_of_blocks_;  // [num_blocks]
  std::vector<HiddenSlotId> free_hidden_;
  std::vector<TokenId> buffer_;  // of keep(), which is called too often to allocate
};

}  // namespace millrace
