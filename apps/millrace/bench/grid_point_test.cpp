// The cells of the published grid.
#include "bench/grid_point.h"

#include <gtest/gtest.h>

namespace millrace::bench {
namespace {

TEST(GridPoint, IsNamedAsInTheTable) {
  const GridPoint point{.batch = 4, .lengths = {.input = 1024, .hit = 512, .output = 32}};
  EXPECT_EQ(point.name(), "4/1024/512/32");
}

TEST(GridPoint, HasMorePromptsWhereAnswersAreShort) {
  GridPoint point{.batch = 8, .lengths = {.input = 32, .hit = 0, .output = 128}};
  EXPECT_EQ(point.num_prompts(), 128);
  EXPECT_EQ(point.num_warmups(), 32);
  point.lengths.output = 127;
  EXPECT_EQ(point.num_prompts(), 256);
  EXPECT_EQ(point.num_warmups(), 64);
}

TEST(GridPoint, EachBatchHasAllLengthsInTheOrderGiven) {
  std::vector<std::string> names;
  for (const GridPoint& point : grid_points({1, 4}, {{32, 0, 1024}, {8, 8, 1}})) {
    names.push_back(point.name());
  }
  EXPECT_EQ(names, (std::vector<std::string>{"1/32/0/1024", "1/8/8/1", "4/32/0/1024", "4/8/8/1"}));
}

TEST(GridLengths, AreRead) {
  const auto cells = parse_grid_lengths("32/0/1024,512/512/1");
  ASSERT_TRUE(cells) << cells.error().message;
  EXPECT_EQ(*cells, (std::vector<GridLengths>{{32, 0, 1024}, {512, 512, 1}}));
}

TEST(GridLengths, AreRefusedWithTheWordThatIsWrong) {
  for (const std::string wrong :
       {"",
        "1",
        "1/2",
        "4/5/1",
        "0/0/1",
        "1/0/0",
        "-1/0/1",
        "1/-1/1",
        "1/0/1/1",
        "a/0/1",
        "1//1",
        "1/0/99999999999999999999"}) {
    const auto cells = parse_grid_lengths("8/0/8," + wrong);
    ASSERT_FALSE(cells) << wrong;
    EXPECT_NE(cells.error().message.find("'" + wrong + "'"), std::string::npos) << wrong;
  }
}

}  // namespace
}  // namespace millrace::bench
