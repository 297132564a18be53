#include "cache/block_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  pool.check_invariants();
}

TEST(BlockPool, HandsOutTheBlockFreedLastFirst) {
  BlockPool pool(4);
  const std::vector<BlockId> all = *pool.try_allocate(4);
  pool.release(std::vector{all[2]});
  pool.release(std::vector{all[0]});
  EXPECT_THAT(*pool.try_allocate(2), ElementsAre(all[0], all[2]));
}

TEST(BlockPool, CountsOneReferencePerAllocation) {
  BlockPool pool(2);
  const std::vector<BlockId> blocks = *pool.try_allocate(1);
  EXPECT_EQ(pool.num_references(blocks[0]), 1);
  EXPECT_EQ(pool.num_references(BlockId{1}), 0);
  pool.release(blocks);
  EXPECT_EQ(pool.num_references(blocks[0]), 0);
}

TEST(BlockPoolDeathTest, RefusesToFreeABlockTwice) {
  BlockPool pool(2);
  const std::vector<BlockId> blocks = *pool.try_allocate(1);
  pool.release(blocks);
  EXPECT_DEATH(pool.release(blocks), "released more often");
}

TEST(BlockPoolDeathTest, RefusesABlockThatItDoesNotHave) {
  BlockPool pool(2);
  EXPECT_DEATH(pool.release(std::vector{BlockId{2}}), "no such block");
  EXPECT_DEATH(pool.release(std::vector{BlockId{-1}}), "no such block");
}

TEST(BlockPool, KeepsItsInvariantsUnderRandomUse) {
  Rng rng(1);
  BlockPool pool(37);
  std::vector<std::vector<BlockId>> held;
  int32_t num_held = 0;
  for (int i = 0; i < 5000; ++i) {
    if (rng.below(2) == 0) {
      const size_t n = rng.below(12);
      std::optional<std::vector<BlockId>> blocks = pool.try_allocate(n);
      ASSERT_EQ(blocks.has_value(), n <= static_cast<size_t>(37 - num_held));
      if (!blocks) continue;
      ASSERT_EQ(blocks->size(), n);
      num_held += static_cast<int32_t>(n);
      held.push_back(std::move(*blocks));
    } else if (!held.empty()) {
      std::swap(held[rng.below(held.size())], held.back());
      pool.release(held.back());
      num_held -= static_cast<int32_t>(held.back().size());
      held.pop_back();
    }
    ASSERT_EQ(pool.num_free(), 37 - num_held);
    pool.check_invariants();
  }
}

}  // namespace
}  // namespace millrace
