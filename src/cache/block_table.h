// The KV blocks of one sequence, in the order of its tokens. Position p lies in blocks()[p /
// block_size], at offset p % block_size. Owns nothing: who fills a table gives its blocks back to
// the pool they came from. Not thread-safe; owned by its sequence.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/id.h"

namespace millrace {

class BlockTable {
 public:
  // REQUIRES: block_size > 0, in tokens.
  explicit BlockTable(int32_t block_size);

  // How many blocks must be appended before the table holds `num_tokens` tokens; 0 if it does.
  int32_t num_blocks_missing(int32_t num_tokens) const;

  void append(std::span<const BlockId> blocks);

  // Block `index` is `block` from now on, which holds the same.
  void replace(int32_t index, BlockId block) { blocks_[static_cast<size_t>(index)] = block; }

  // Takes the blocks from the `num_blocks`-th on out of the table and returns them, for the pool.
  // REQUIRES: 0 <= num_blocks <= num_blocks().
  std::vector<BlockId> take_from(int32_t num_blocks);

  // Empties the table and returns what was in it, for the pool.
  std::vector<BlockId> take_all() { return std::exchange(blocks_, {}); }

  // Where the K and V of a position go: block * block_size + offset.
  // REQUIRES: 0 <= position < num_token_slots().
  int32_t slot(int32_t position) const;

  std::span<const BlockId> blocks() const { return blocks_; }
  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t num_token_slots() const { return num_blocks() * block_size_; }
  int32_t block_size() const { return block_size_; }

 private:
  int32_t block_size_;
  std::vector<BlockId> blocks_;
};

}  // namespace millrace
