#include "model/kv_budget.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace millrace {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMiB = 1024 * 1024;

TEST(KvBudget, ShowsItsArithmetic) {
  const KvBudget budget = *plan_kv_budget(
      {.num_bytes = 8192 * kMiB,
       .bytes_per_block = 1478492,
       .block_size = 16,
       .max_model_len = 8192}
  );
  EXPECT_EQ(budget.num_blocks, 5809);
  EXPECT_EQ(budget.num_tokens, 92944);
  EXPECT_NEAR(budget.num_full_sequences, 11.3, 0.05);
  EXPECT_EQ(
      budget.text,
      "KV cache: 8.00 GiB / 1.41 MiB per block of 16 tokens = 5,809 blocks = 92,944 tokens: "
      "11.3 sequences of 8192"
  );
}

TEST(KvBudget, CountsWholeBlocksOnly) {
  const KvBudget budget = *plan_kv_budget(
      {.num_bytes = 1050, .bytes_per_block = 100, .block_size = 4, .max_model_len = 9}
  );
  EXPECT_EQ(budget.num_blocks, 10);
  EXPECT_EQ(budget.num_tokens, 40);
  EXPECT_DOUBLE_EQ(budget.num_full_sequences, 10.0 / 3.0);
}

TEST(KvBudget, RefusesLessThanOneSequenceAndSaysWhatWouldFit) {
  const Error error =
      plan_kv_budget(
          {.num_bytes = 3 * kMiB, .bytes_per_block = kMiB, .block_size = 16, .max_model_len = 100}
      )
          .error();
  EXPECT_EQ(error.code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(error.message, HasSubstr("has 3.00 MiB"));
  EXPECT_THAT(error.message, HasSubstr("max_model_len = 100 needs 7.00 MiB"));
  EXPECT_THAT(error.message, HasSubstr("at most 48"));
}

TEST(KvBudget, TakesNoMemoryAsTooLittleAndNotAsAnAccident) {
  for (const int64_t num_bytes : {int64_t{0}, int64_t{-5}, std::numeric_limits<int64_t>::min()}) {
    const auto budget = plan_kv_budget(
        {.num_bytes = num_bytes, .bytes_per_block = 100, .block_size = 16, .max_model_len = 8}
    );
    EXPECT_EQ(budget.error().code, ErrorCode::kResourceExhausted);
    // "set max_model_len to at most 0" helped nobody.
    EXPECT_THAT(
        budget.error().message,
        testing::EndsWith("needs 0.10 KiB; give it more memory (--kv-cache-memory-bytes)")
    );
  }
}

TEST(KvBudget, RefusesSizesThatAreNone) {
  const KvBudgetInput good{
      .num_bytes = 1000, .bytes_per_block = 10, .block_size = 1, .max_model_len = 8};
  ASSERT_TRUE(plan_kv_budget(good).ok());
  KvBudgetInput bad = good;
  bad.bytes_per_block = 0;
  EXPECT_EQ(plan_kv_budget(bad).error().code, ErrorCode::kInvalidArgument);
  bad = good;
  bad.block_size = 0;
  EXPECT_EQ(plan_kv_budget(bad).error().code, ErrorCode::kInvalidArgument);
  bad = good;
  bad.max_model_len = -1;
  EXPECT_EQ(plan_kv_budget(bad).error().code, ErrorCode::kInvalidArgument);
}

TEST(KvBudget, NeverHasMoreSlotsThanCanBeNumbered) {
  const KvBudget budget = *plan_kv_budget(
      {.num_bytes = std::numeric_limits<int64_t>::max(),
       .bytes_per_block = 1,
       .block_size = 16,
       .max_model_len = 8}
  );
  EXPECT_LE(budget.num_tokens, std::numeric_limits<int32_t>::max());
  EXPECT_EQ(budget.num_blocks, 134217727);
}

}  // namespace
}  // namespace millrace
