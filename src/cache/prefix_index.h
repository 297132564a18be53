// Which blocks hold which prefixes. A block is entered with the tokens it holds and the hash of all
// tokens before it, and found again by either: whole blocks by the hash of their prefix, blocks of
// which only the first tokens match by their first token. Tokens are always compared: a hash only
// says where to look. Bookkeeping only; owned by the prefix cache, not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/id.h"
#include "base/siphash.h"

namespace millrace {

// The first tokens of a block.
struct BlockPart {
  BlockId block;
  int32_t num_tokens = 0;
  friend bool operator==(const BlockPart&, const BlockPart&) = default;
};

class PrefixIndex {
 public:
  // REQUIRES: num_blocks >= 0, block_size > 0.
  PrefixIndex(int32_t num_blocks, int32_t block_size);

  // Enters a block that holds `tokens`, at least one, after a prefix that hashes to `before`; or
  // adds to what it held. REQUIRES: if it was entered before, with the same `before` and no other
  // tokens.
  void enter(BlockId block, Hash128 before, std::span<const TokenId> tokens);

  // The same for a block whose tokens are all there; `through`: the hash that includes them.
  // Returns the block that held these tokens after this prefix before, and enters nothing then; or
  // `block`.
  BlockId enter_whole(
      BlockId block, Hash128 before, Hash128 through, std::span<const TokenId> tokens
  );

  // Nothing happens if it was not entered.
  void erase(BlockId block);

  // The block that holds these tokens, a whole block of them, after this prefix.
  std::optional<BlockId> find_whole(
      Hash128 before, Hash128 through, std::span<const TokenId> tokens
  ) const;

  // The block that begins with the most of `tokens` after this prefix, at least one. Looks at the
  // last so many that begin alike, not at all.
  std::optional<BlockPart> find_part(Hash128 before, std::span<const TokenId> tokens) const;

  bool contains(BlockId block) const { return at(block).num_tokens > 0; }
  // The tokens that the block was entered with; none if it was not.
  std::span<const TokenId> tokens(BlockId block) const;
  Hash128 before(BlockId block) const { return at(block).before; }

  int32_t num_entered() const { return num_entered_; }
  void check_invariants() const;

 private:
  struct Entry {
    Hash128 before;
    std::optional<Hash128> through;  // of a whole block
    int32_t num_tokens = 0;          // 0: not entered
    std::optional<BlockId> older;    // neighbours in the list of those that begin alike
    std::optional<BlockId> newer;
    std::optional<BlockId> next_whole;  // in the list of whole ones
  };
  // Hash tables whose lists run through the entries: a step of a full server enters a dozen blocks,
  // and a node of its own for each costs more than all the rest.
  using Heads = std::vector<std::optional<BlockId>>;  // [a power of 2]

  bool holds(BlockId block, Hash128 before, std::span<const TokenId> tokens) const;
  Entry& at(BlockId block) { return entries_[static_cast<size_t>(block.value)]; }
  const Entry& at(BlockId block) const { return entries_[static_cast<size_t>(block.value)]; }
  TokenId* tokens_at(BlockId block) {
    return tokens_.data() + static_cast<size_t>(block.value) * static_cast<size_t>(block_size_);
  }
  void link(BlockId block);
  void unlink(BlockId block);
  void unlink_whole(BlockId block);
  std::optional<BlockId> find_hash(Hash128 through) const;

  int32_t block_size_;
  std::vector<Entry> entries_;   // [num_blocks]
  std::vector<TokenId> tokens_;  // [num_blocks, block_size]
  Heads whole_;                  // whole ones, by `through`
  Heads newest_;                 // all, by the prefix and the first token after it
  int32_t num_entered_ = 0;
};

}  // namespace millrace
