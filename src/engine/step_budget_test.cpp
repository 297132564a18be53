#include "engine/step_budget.h"

#include <gtest/gtest.h>

#include <limits>

namespace millrace {
namespace {

TEST(StepBudget, IsSmallOnFewCoresAndGrowsWithThem) {
  EXPECT_EQ(default_step_tokens(1, 64, false), 128);
  EXPECT_EQ(default_step_tokens(8, 64, false), 128);
  EXPECT_EQ(default_step_tokens(32, 64, false), 512);
  EXPECT_EQ(default_step_tokens(1024, 64, false), 2048);
}

TEST(StepBudget, IsLargerWhereTilesAreMultiplied) {
  EXPECT_EQ(default_step_tokens(1, 64, true), 256);
  EXPECT_EQ(default_step_tokens(32, 64, true), 512);
}

TEST(StepBudget, IsLargerWithAmxButForEightBits) {
  EXPECT_TRUE(gains_by_long_steps(Isa::kAmx, {DType::kBFloat16}));
  EXPECT_TRUE(gains_by_long_steps(Isa::kAmx, {DType::kBFloat16, QuantizedFormat::kInt4}));
  EXPECT_FALSE(gains_by_long_steps(Isa::kAmx, {DType::kBFloat16, QuantizedFormat::kInt8}));
  EXPECT_FALSE(gains_by_long_steps(Isa::kAmx, {DType::kFloat32}));
  EXPECT_FALSE(gains_by_long_steps(Isa::kAvx512Dot, {DType::kBFloat16}));
  EXPECT_FALSE(gains_by_long_steps(Isa::kAvx512Dot, {DType::kBFloat16, QuantizedFormat::kInt4}));
}

TEST(StepBudget, LeavesRoomForPromptsBesideThoseWhoAreAnswered) {
  EXPECT_EQ(default_step_tokens(2, 256, false), 320);
  EXPECT_EQ(
      default_step_tokens(2, std::numeric_limits<int32_t>::max(), false),
      std::numeric_limits<int32_t>::max()
  );
}

TEST(StepBudget, IsLargeOnADevice) {
  EXPECT_EQ(default_device_step_tokens(64), 2048);
  EXPECT_EQ(default_device_step_tokens(4096), 4160);
}

TEST(StepBudget, GivesOnePromptHalfOfAStep) {
  EXPECT_EQ(default_prompt_tokens(128), 64);
  EXPECT_EQ(default_prompt_tokens(1), 1);
}

}  // namespace
}  // namespace millrace
