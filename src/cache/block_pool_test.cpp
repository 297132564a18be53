#include "cache/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "base/rng.h"

namespace millrace {
namespace {

using ::testing::ElementsAre;

TEST(BlockPool, HandsOutBlocksInOrderAtFirst) {
  BlockPool pool(3);
  EXPECT_THAT(*pool.try_allocate(2), ElementsAre(BlockId{0}, BlockId{1}));
  EXPECT_THAT(*pool.try_allocate(1), ElementsAre(BlockId{2}));
}

TEST(BlockPool, AllocatesAllOrNothing) {
  BlockPool pool(3);
  EXPECT_EQ(pool.try_allocate(4), std::nullopt);
  EXPECT_EQ(pool.num_free(), 3);
  ASSERT_TRUE(pool.try_allocate(2));
  EXPECT_EQ(pool.try_allocate(2), std::nullopt);
  EXPECT_EQ(pool.num_free(), 1);
  EXPECT_TRUE(pool.try_allocate(1));
  EXPECT_EQ(pool.num_free(), 0);
  pool.check_invariants();
}

TEST(BlockPool, AllocatesNothingFromAnEmptyPool) {
  BlockPool pool(0);
  EXPECT_TRUE(pool.try_allocate(0)->empty());
  EXPECT_EQ(pool.try_allocate(1), std::nullopt);
  EXPECT_EQ(pool.oldest_idle(), std::nullopt);
  pool.check_invariants();
}

TEST(BlockPool, HandsOutTheBlockFreedLastFirst) {
  BlockPool pool(4);
  const std::vector<BlockId> all = *pool.try_allocate(4);
  pool.release(all[2]);
  pool.release(all[0]);
  EXPECT_THAT(*pool.try_allocate(2), ElementsAre(all[0], all[2]));
}

TEST(BlockPool, ABlockIsFreeWhenItsLastReferenceIsGivenBack) {
  BlockPool pool(2);
  const BlockId block = (*pool.try_allocate(1))[0];
  pool.add_reference(block);
  EXPECT_EQ(pool.num_references(block), 2);
  pool.release(block);
  EXPECT_EQ(pool.num_free(), 1);
  pool.release(block);
  EXPECT_EQ(pool.num_references(block), 0);
  EXPECT_EQ(pool.num_free(), 2);
  pool.check_invariants();
}

TEST(BlockPool, KeepsIdleBlocksInTheOrderOfTheirLastUse) {
  BlockPool pool(4);
  const std::vector<BlockId> all = *pool.try_allocate(4);
  for (const size_t i : {2, 0, 3}) pool.release_to_idle(all[i]);
  EXPECT_EQ(pool.num_idle(), 3);
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_EQ(pool.oldest_idle(), all[2]);
  pool.touch(all[2]);
  EXPECT_EQ(pool.oldest_idle(), all[0]);
  pool.add_reference(all[0]);  // in use again
  EXPECT_EQ(pool.oldest_idle(), all[3]);
  pool.free_idle(all[3]);
  EXPECT_EQ(pool.oldest_idle(), all[2]);
  pool.check_invariants();
}

TEST(BlockPoolDeathTest, RefusesToFreeABlockTwice) {
  BlockPool pool(2);
  const BlockId block = (*pool.try_allocate(1))[0];
  pool.release(block);
  EXPECT_DEATH(pool.release(block), "released more often");
}

TEST(BlockPoolDeathTest, RefusesToShareAFreeBlock) {
  BlockPool pool(2);
  EXPECT_DEATH(pool.add_reference(BlockId{0}), "nothing to share");
}

TEST(BlockPoolDeathTest, RefusesABlockThatItDoesNotHave) {
  BlockPool pool(2);
  EXPECT_DEATH(pool.release(BlockId{2}), "no such block");
  EXPECT_DEATH(pool.release(BlockId{-1}), "no such block");
}

TEST(BlockPool, AgreesWithASimpleModelUnderRandomUse) {
  Rng rng(1);
  constexpr int32_t kNumBlocks = 37;
  BlockPool pool(kNumBlocks);
  std::vector<BlockId> held;  // one entry for each reference
  std::deque<BlockId> idle;   // oldest first
  const auto num_references = [&held](BlockId block) {
    return static_cast<int32_t>(std::ranges::count(held, block));
  };
  for (int i = 0; i < 20000; ++i) {
    const uint64_t action = rng.below(6);
    if (action == 0) {
      const std::optional<std::vector<BlockId>> blocks = pool.try_allocate(rng.below(6));
      if (blocks) held.insert(held.end(), blocks->begin(), blocks->end());
    } else if (action == 1 && !idle.empty()) {
      pool.free_idle(idle.front());
      idle.pop_front();
    } else if (action == 2 && !idle.empty()) {
      const BlockId block = idle[rng.below(idle.size())];
      std::erase(idle, block);
      pool.add_reference(block);
      held.push_back(block);
    } else if (action == 3 && !held.empty()) {
      const BlockId block = held[rng.below(held.size())];
      pool.add_reference(block);
      held.push_back(block);
    } else if (!held.empty()) {
      std::swap(held[rng.below(held.size())], held.back());
      const BlockId block = held.back();
      held.pop_back();
      if (action == 4) {
        pool.release(block);
      } else {
        pool.release_to_idle(block);
        if (num_references(block) == 0) idle.push_back(block);
      }
    }
    pool.check_invariants();
    ASSERT_EQ(pool.num_idle(), static_cast<int32_t>(idle.size()));
    ASSERT_EQ(pool.oldest_idle(), idle.empty() ? std::nullopt : std::optional(idle.front()));
    for (const BlockId block : held) ASSERT_EQ(pool.num_references(block), num_references(block));
  }
}

}  // namespace
}  // namespace millrace
