#include "cache/block_table.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"

namespace millrace {

BlockTable::BlockTable(int32_t block_size) : block_size_(block_size) {
  CHECK(block_size > 0, "a block holds at least one token");
}

int32_t BlockTable::num_blocks_missing(int32_t num_tokens) const {
  return std::max(0, div_ceil(num_tokens, block_size_) - num_blocks());
}

void BlockTable::append(std::span<const BlockId> blocks) {
  blocks_.insert(blocks_.end(), blocks.begin(), blocks.end());
}

std::vector<BlockId> BlockTable::take_from(int32_t num_blocks) {
  CHECK(num_blocks >= 0 && num_blocks <= this->num_blocks(), "more blocks than there are");
  std::vector<BlockId> taken(blocks_.begin() + num_blocks, blocks_.end());
  blocks_.resize(static_cast<size_t>(num_blocks));
  return taken;
}

int32_t BlockTable::slot(int32_t position) const {
  CHECK(position >= 0 && position < num_token_slots(), "the position has no block");
  const BlockId block = blocks_[static_cast<size_t>(position / block_size_)];
  return block.value * block_size_ + position % block_size_;
}

}  // namespace millrace
