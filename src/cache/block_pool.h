// Tracks which KV blocks are free and how many block tables refer to each of the others. Host
// bookkeeping only: no device memory. Not thread-safe; owned by the scheduler, called on its
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/id.h"

namespace millrace {

class BlockPool {
 public:
  // REQUIRES: num_blocks >= 0.
  explicit BlockPool(int32_t num_blocks);

  // Takes `n` free blocks with one reference each, or none of them. nullopt means "preempt
  // someone", not failure. The block that was freed last is handed out first, while its memory may
  // still be warm; a new pool hands out 0, 1, 2, ...
  std::optional<std::vector<BlockId>> try_allocate(size_t n);

  // Gives one reference of each block back; a block without references is free again.
  // REQUIRES: each has a reference.
  void release(std::span<const BlockId> blocks);

  int32_t num_blocks() const { return static_cast<int32_t>(num_references_.size()); }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t num_references(BlockId block) const;

  // CHECKs that each block is either referred to or in the free list, once.
  void check_invariants() const;

 private:
  // [num_blocks]. A count and not a flag: a block whose prefix several sequences share will have
  // several references, and nothing here changes then.
  std::vector<int32_t> num_references_;
  std::vector<BlockId> free_;  // a stack: the next block to hand out is at the back
};

}  // namespace millrace
