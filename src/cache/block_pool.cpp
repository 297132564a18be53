#include "cache/block_pool.h"

#include <algorithm>

#include "base/check.h"

namespace millrace {

BlockPool::BlockPool(int32_t num_blocks) {
  CHECK(num_blocks >= 0, "a pool cannot have fewer than no blocks");
  num_references_.assign(static_cast<size_t>(num_blocks), 0);
  free_.reserve(static_cast<size_t>(num_blocks));
  for (int32_t block = num_blocks - 1; block >= 0; --block) free_.push_back(BlockId{block});
}

std::optional<std::vector<BlockId>> BlockPool::try_allocate(size_t n) {
  if (n > free_.size()) return std::nullopt;
  const auto taken = free_.end() - static_cast<ptrdiff_t>(n);
  std::vector<BlockId> blocks(taken, free_.end());
  std::reverse(blocks.begin(), blocks.end());
  free_.erase(taken, free_.end());
  for (const BlockId block : blocks) num_references_[static_cast<size_t>(block.value)] = 1;
  return blocks;
}

void BlockPool::release(std::span<const BlockId> blocks) {
  for (const BlockId block : blocks) {
    CHECK(num_references(block) > 0, "a block is released more often than it was taken");
    if (--num_references_[static_cast<size_t>(block.value)] == 0) free_.push_back(block);
  }
}

int32_t BlockPool::num_references(BlockId block) const {
  CHECK(block.value >= 0 && block.value < num_blocks(), "no such block");
  return num_references_[static_cast<size_t>(block.value)];
}

void BlockPool::check_invariants() const {
  std::vector<bool> is_free(num_references_.size(), false);
  for (const BlockId block : free_) {
    CHECK(num_references(block) == 0, "a free block has references");
    CHECK(!is_free[static_cast<size_t>(block.value)], "a block is free twice");
    is_free[static_cast<size_t>(block.value)] = true;
  }
  for (size_t block = 0; block < num_references_.size(); ++block) {
    CHECK(num_references_[block] >= 0, "a block has fewer than no references");
    CHECK(is_free[block] || num_references_[block] > 0, "a block is neither free nor in use");
  }
}

}  // namespace millrace
