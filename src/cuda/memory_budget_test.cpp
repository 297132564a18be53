#include "cuda/memory_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace millrace::cuda {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr int64_t kGiB = int64_t{1} << 30;

MemoryBudgetInput input_of_a_7b() {
  return {
      .device = {.num_bytes = 140 * kGiB, .num_bytes_free = 139 * kGiB},
      .gpu_memory_utilization = 0.5,
      .num_weight_bytes = 14 * kGiB,
      .num_workspace_bytes = 2 * kGiB,
      .num_graph_bytes = kGiB,
  };
}

TEST(MemoryBudget, LeavesWhatNothingElseTakes) {
  const Result<MemoryBudget> budget = plan_memory_budget(input_of_a_7b());
  ASSERT_TRUE(budget) << budget.error().message;
  EXPECT_EQ(budget->num_usable_bytes, 70 * kGiB);
  EXPECT_EQ(budget->num_kv_bytes, (70 - 14 - 2 - 1) * kGiB);
  EXPECT_EQ(
      budget->text,
      "GPU memory: 0.5 of 140.00 GiB = 70.00 GiB - weights 14.00 GiB - workspace 2.00 GiB - graphs "
      "1.00 GiB = 53.00 GiB left"
  );
}

TEST(MemoryBudget, TakesNoMoreForTheKvCacheThanAskedFor) {
  MemoryBudgetInput input = input_of_a_7b();
  input.num_kv_bytes = 4 * kGiB;
  const Result<MemoryBudget> budget = plan_memory_budget(input);
  ASSERT_TRUE(budget) << budget.error().message;
  EXPECT_EQ(budget->num_kv_bytes, 4 * kGiB);

  input.num_kv_bytes = 54 * kGiB;
  const Result<MemoryBudget> too_much = plan_memory_budget(input);
  ASSERT_FALSE(too_much);
  EXPECT_EQ(too_much.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(too_much.error().where, "--kv-cache-memory-bytes");
  EXPECT_THAT(too_much.error().message, AllOf(HasSubstr("54.00 GiB"), HasSubstr("53.00 GiB")));
}

TEST(MemoryBudget, SaysHowMuchIsMissing) {
  MemoryBudgetInput input = input_of_a_7b();
  input.num_weight_bytes = 70 * kGiB;
  const Result<MemoryBudget> budget = plan_memory_budget(input);
  ASSERT_FALSE(budget);
  EXPECT_EQ(budget.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(budget.error().message, HasSubstr("take 3.00 GiB more than the 70.00 GiB"));
}

TEST(MemoryBudget, SeesWhatOthersHold) {
  MemoryBudgetInput input = input_of_a_7b();
  input.device.num_bytes_free = 69 * kGiB;
  const Result<MemoryBudget> budget = plan_memory_budget(input);
  ASSERT_FALSE(budget);
  EXPECT_EQ(budget.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(
      budget.error().message, AllOf(HasSubstr("is 70.00 GiB"), HasSubstr("69.00 GiB are free"))
  );
}

TEST(MemoryBudget, RefusesAShareThatIsNone) {
  for (const double share : {0.0, -0.5, 1.01, std::numeric_limits<double>::quiet_NaN()}) {
    MemoryBudgetInput input = input_of_a_7b();
    input.gpu_memory_utilization = share;
    const Result<MemoryBudget> budget = plan_memory_budget(input);
    ASSERT_FALSE(budget) << share;
    EXPECT_EQ(budget.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(budget.error().where, "--gpu-memory-utilization");
  }
}

}  // namespace
}  // namespace millrace::cuda
