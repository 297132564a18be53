// Which KV blocks are free, which are in use and by how many block tables, and which are idle: used
// by nobody, but holding a prefix that may be asked for again. Host bookkeeping only: no device
// memory. Not thread-safe; owned by the prefix cache, called on the scheduler's thread.
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

  // Takes `n` free blocks with one reference each, or none of them. The block that was freed last
  // is handed out first, while its memory may still be warm; a new pool hands out 0, 1, 2, ...
  std::optional<std::vector<BlockId>> try_allocate(size_t n);

  // One reference more. REQUIRES: the block is in use or idle.
  void add_reference(BlockId block);

  // One reference less; a block without references is free, or idle. REQUIRES: it has one.
  void release(BlockId block);
  void release_to_idle(BlockId block);

  // Idle blocks lie in the order of their last use.
  std::optional<BlockId> oldest_idle() const;
  void touch(BlockId block);      // used just now. REQUIRES: it is idle
  void free_idle(BlockId block);  // REQUIRES: it is idle

  int32_t num_blocks() const { return static_cast<int32_t>(blocks_.size()); }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t num_idle() const { return num_idle_; }
  int32_t num_references(BlockId block) const { return at(block).num_references; }
  bool is_idle(BlockId block) const { return at(block).is_idle; }

  // CHECKs that each block is in use, idle or free, and only one of these.
  void check_invariants() const;

 private:
  struct Block {
    int32_t num_references = 0;
    bool is_idle = false;
    std::optional<BlockId> older;  // idle ones only: their neighbours by last use
    std::optional<BlockId> newer;
  };

  Block& at(BlockId block);
  const Block& at(BlockId block) const;
  void drop_reference(BlockId block);
  void link_newest(BlockId block);
  void unlink(BlockId block);

  std::vector<Block> blocks_;
  std::vector<BlockId> free_;  // a stack: the next block to hand out is at the back
  std::optional<BlockId> oldest_idle_;
  std::optional<BlockId> newest_idle_;
  int32_t num_idle_ = 0;
};

}  // namespace millrace
