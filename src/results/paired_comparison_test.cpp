#include "results/paired_comparison.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/json.h"
#include "base/rng.h"

namespace millrace::bench {
namespace {

TEST(PairedComparison, IsScipys) {
  const auto file = read_json_file(MILLRACE_SOURCE_DIR "/tests/golden/bench/statistics.json");
  ASSERT_TRUE(file.ok());
  const json::object& golden = file->as_object().at("paired").as_object();
  std::vector<PairedBlock> blocks;
  for (size_t i = 0; i < golden.at("a").as_array().size(); ++i) {
    // scipy's difference is the first less the second.
    blocks.push_back(
        {.first = golden.at("b").as_array()[i].to_number<double>(),
         .second = golden.at("a").as_array()[i].to_number<double>()}
    );
  }
  const auto result = compare_paired(blocks);
  ASSERT_TRUE(result.has_value());
  EXPECT_NEAR(result->p_student, golden.at("p").to_number<double>(), 1e-10);
  EXPECT_NEAR(result->p_permutation, golden.at("p_permutation").to_number<double>(), 1e-12);
  EXPECT_NEAR(result->difference_interval.low, golden.at("low").to_number<double>(), 1e-8);
  EXPECT_NEAR(result->difference_interval.high, golden.at("high").to_number<double>(), 1e-8);
}

TEST(PairedComparison, SaysByHowMuchTheFasterIsFaster) {
  std::vector<PairedBlock> blocks;
  for (int i = 0; i < 10; ++i) {
    const double load = 1.0 + i;  // the blocks differ far more than the servers
    blocks.push_back({.first = 100.0 * load, .second = 75.0 * load + (i % 2 == 0 ? 0.5 : -0.5)});
  }
  const auto result = compare_paired(blocks);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->faster, Faster::kSecond);
  EXPECT_NEAR(result->faster_percent, 25.0, 0.1);
  EXPECT_LT(result->faster_percent_interval.low, 25.0);
  EXPECT_GT(result->faster_percent_interval.high, 25.0);
  EXPECT_LT(result->faster_percent_interval.high - result->faster_percent_interval.low, 0.3);
  EXPECT_TRUE(result->is_significant);
  for (PairedBlock& block : blocks) std::swap(block.first, block.second);
  const auto swapped = compare_paired(blocks);
  EXPECT_EQ(swapped->faster, Faster::kFirst);
  EXPECT_DOUBLE_EQ(swapped->faster_percent, result->faster_percent);
  EXPECT_DOUBLE_EQ(swapped->mean_difference, -result->mean_difference);
}

TEST(PairedComparison, IsSeldomSignificantOfEqualServers) {
  Rng rng(11);
  int num_significant = 0;
  constexpr int kRuns = 400;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<PairedBlock> blocks;
    for (int i = 0; i < 10; ++i) {
      blocks.push_back({.first = 100.0 + rng.unit(), .second = 100.0 + rng.unit()});
    }
    num_significant += compare_paired(blocks)->is_significant ? 1 : 0;
  }
  EXPECT_LT(num_significant, kRuns * 0.08);
  EXPECT_GT(num_significant, 0);
}

TEST(PairedComparison, DrawsFlipsWhereAllAreTooMany) {
  Rng rng(2);
  std::vector<PairedBlock> blocks;
  for (int i = 0; i < 70; ++i) {
    blocks.push_back({.first = 100.0 + rng.unit(), .second = 100.2 + rng.unit()});
  }
  const auto result = compare_paired(blocks, 0.95, 7);
  EXPECT_EQ(result->p_permutation, compare_paired(blocks, 0.95, 7)->p_permutation);
  EXPECT_GT(result->p_permutation, 0.0);
  EXPECT_NEAR(result->p_permutation, result->p_student, 0.005);
}

TEST(PairedComparison, FindsATie) {
  const std::vector<PairedBlock> blocks(8, {.first = 5.0, .second = 5.0});
  const auto result = compare_paired(blocks);
  EXPECT_EQ(result->faster, Faster::kTie);
  EXPECT_EQ(result->p_student, 1.0);
  EXPECT_EQ(result->p_permutation, 1.0);
  EXPECT_FALSE(result->is_significant);
}

TEST(PairedComparison, NeedsTwoFiniteBlocksAndSixToBeSure) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(compare_paired(std::vector<PairedBlock>(1)).has_value());
  EXPECT_FALSE(compare_paired(std::vector<PairedBlock>{{1, inf}, {1, 2}}).has_value());
  const std::vector<PairedBlock> blocks(6, {.first = 5.0, .second = 6.0});
  EXPECT_TRUE(compare_paired(blocks)->is_significant);
  EXPECT_FALSE(compare_paired(std::span(blocks).first(5))->is_significant);
}

}  // namespace
}  // namespace millrace::bench
