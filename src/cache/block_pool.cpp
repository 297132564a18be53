#include "cache/block_pool.h"

#include <algorithm>

#include "base/check.h"

namespace millrace {

BlockPool::BlockPool(int32_t num_blocks) {
  CHECK(num_blocks >= 0, "a pool cannot have fewer than no blocks");
  blocks_.resize(static_cast<size_t>(num_blocks));
  free_.reserve(static_cast<size_t>(num_blocks));
  for (int32_t block = num_blocks - 1; block >= 0; --block) free_.push_back(BlockId{block});
}

BlockPool::Block& BlockPool::at(BlockId block) {
  CHECK(block.value >= 0 && block.value < num_blocks(), "no such block");
  return blocks_[static_cast<size_t>(block.value)];
}

const BlockPool::Block& BlockPool::at(BlockId block) const {
  CHECK(block.value >= 0 && block.value < num_blocks(), "no such block");
  return blocks_[static_cast<size_t>(block.value)];
}

std::optional<std::vector<BlockId>> BlockPool::try_allocate(size_t n) {
  if (n > free_.size()) return std::nullopt;
  const auto taken = free_.end() - static_cast<ptrdiff_t>(n);
  std::vector<BlockId> blocks(taken, free_.end());
  std::reverse(blocks.begin(), blocks.end());
  free_.erase(taken, free_.end());
  for (const BlockId block : blocks) at(block).num_references = 1;
  return blocks;
}

void BlockPool::add_reference(BlockId block) {
  if (at(block).is_idle) unlink(block);
  CHECK(at(block).num_references > 0 || at(block).is_idle, "a free block holds nothing to share");
  at(block).is_idle = false;
  ++at(block).num_references;
}

void BlockPool::release(BlockId block) {
  drop_reference(block);
  if (at(block).num_references == 0) free_.push_back(block);
}

void BlockPool::release_to_idle(BlockId block) {
  drop_reference(block);
  if (at(block).num_references > 0) return;
  at(block).is_idle = true;
  link_newest(block);
}

std::optional<BlockId> BlockPool::oldest_idle() const {
  return oldest_idle_;
}

void BlockPool::touch(BlockId block) {
  CHECK(at(block).is_idle, "only idle blocks are kept in order");
  unlink(block);
  link_newest(block);
}

void BlockPool::free_idle(BlockId block) {
  CHECK(at(block).is_idle, "a block in use is not given away");
  unlink(block);
  at(block).is_idle = false;
  free_.push_back(block);
}

void BlockPool::drop_reference(BlockId block) {
  CHECK(at(block).num_references > 0, "a block is released more often than it was taken");
  --at(block).num_references;
}

void BlockPool::link_newest(BlockId block) {
  at(block).older = newest_idle_;
  at(block).newer = std::nullopt;
  (newest_idle_ ? at(*newest_idle_).newer : oldest_idle_) = block;
  newest_idle_ = block;
  ++num_idle_;
}

void BlockPool::unlink(BlockId block) {
  const Block& links = at(block);
  (links.older ? at(*links.older).newer : oldest_idle_) = links.newer;
  (links.newer ? at(*links.newer).older : newest_idle_) = links.older;
  --num_idle_;
}

void BlockPool::check_invariants() const {
  std::vector<bool> is_free(blocks_.size(), false);
  for (const BlockId block : free_) {
    CHECK(num_references(block) == 0, "a free block has references");
    CHECK(!is_idle(block), "a free block is idle");
    CHECK(!is_free[static_cast<size_t>(block.value)], "a block is free twice");
    is_free[static_cast<size_t>(block.value)] = true;
  }
  int32_t num_linked = 0;
  std::optional<BlockId> older;
  for (std::optional<BlockId> block = oldest_idle_; block; block = at(*block).newer) {
    CHECK(is_idle(*block), "a block is kept in order and not idle");
    CHECK(at(*block).older == older, "idle blocks are linked one way only");
    CHECK(++num_linked <= num_idle_, "more idle blocks than are counted");
    older = block;
  }
  CHECK(older == newest_idle_ && num_linked == num_idle_, "an idle block was lost");
  int32_t num_used = 0;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    CHECK(block.num_references >= 0, "a block has fewer than no references");
    CHECK(!(block.is_idle && block.num_references > 0), "an idle block is in use");
    CHECK(is_free[i] || block.is_idle || block.num_references > 0, "a block is nowhere");
    if (block.num_references > 0) ++num_used;
  }
  CHECK(num_free() + num_idle_ + num_used == num_blocks(), "free + idle + used is not all");
}

}  // namespace millrace
