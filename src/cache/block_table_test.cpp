#include "cache/block_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(BlockTable, CountsTheBlocksThatAreMissing) {
  BlockTable table(4);
  EXPECT_EQ(table.num_blocks_missing(0), 0);
  EXPECT_EQ(table.num_blocks_missing(1), 1);
  EXPECT_EQ(table.num_blocks_missing(4), 1);
  EXPECT_EQ(table.num_blocks_missing(5), 2);
  table.append(std::vector{BlockId{9}});
  EXPECT_EQ(table.num_blocks_missing(4), 0);
  EXPECT_EQ(table.num_blocks_missing(9), 2);
  EXPECT_EQ(table.num_blocks_missing(1), 0);
}

TEST(BlockTable, FindsTheSlotOfAPositionThroughItsBlock) {
  BlockTable table(4);
  table.append(std::vector{BlockId{7}, BlockId{2}});
  table.append(std::vector{BlockId{0}});
  EXPECT_EQ(table.num_token_slots(), 12);
  EXPECT_EQ(table.slot(0), 28);
  EXPECT_EQ(table.slot(3), 31);
  EXPECT_EQ(table.slot(4), 8);
  EXPECT_EQ(table.slot(11), 3);
}

TEST(BlockTable, GivesUpAllItsBlocks) {
  BlockTable table(2);
  table.append(std::vector{BlockId{3}, BlockId{1}});
  EXPECT_THAT(table.take_all(), ElementsAre(BlockId{3}, BlockId{1}));
  EXPECT_THAT(table.blocks(), IsEmpty());
  EXPECT_EQ(table.num_token_slots(), 0);
}

TEST(BlockTable, GivesUpItsLastBlocks) {
  BlockTable table(2);
  table.append(std::vector{BlockId{3}, BlockId{1}, BlockId{4}});
  EXPECT_THAT(table.take_from(3), IsEmpty());
  EXPECT_THAT(table.take_from(1), ElementsAre(BlockId{1}, BlockId{4}));
  EXPECT_THAT(table.blocks(), ElementsAre(BlockId{3}));
  EXPECT_THAT(table.take_from(0), ElementsAre(BlockId{3}));
}

TEST(BlockTableDeathTest, HasNoSlotBeyondItsBlocks) {
  BlockTable table(2);
  table.append(std::vector{BlockId{3}});
  EXPECT_DEATH(table.slot(2), "no block");
  EXPECT_DEATH(table.slot(-1), "no block");
  EXPECT_DEATH(table.take_from(2), "more blocks");
}

}  // namespace
}  // namespace millrace
