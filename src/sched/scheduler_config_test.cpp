#include "sched/scheduler_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace millrace {
namespace {

using ::testing::HasSubstr;

SchedulerConfig small_config() {
  return {
      .max_num_batched_tokens = 8,
      .max_num_seqs = 4,
      .max_logit_rows = 4,
      .max_model_len = 32,
      .block_size = 4,
      .num_blocks = 6,
  };
}

TEST(SchedulerConfig, AcceptsLimitsThatWorkTogether) {
  EXPECT_TRUE(validate(small_config()).ok());
}

TEST(SchedulerConfig, NamesTheFieldThatCannotWork) {
  const auto field_refused = [](auto change) {
    SchedulerConfig config = small_config();
    change(config);
    const Result<void> result = validate(config);
    return result.ok() ? "none" : result.error().where;
  };
  EXPECT_EQ(field_refused([](auto& c) { c.block_size = 0; }), "block_size");
  EXPECT_EQ(field_refused([](auto& c) { c.num_blocks = 0; }), "num_blocks");
  EXPECT_EQ(field_refused([](auto& c) { c.max_model_len = 1; }), "max_model_len");
  EXPECT_EQ(field_refused([](auto& c) { c.max_num_seqs = 0; }), "max_num_seqs");
  EXPECT_EQ(field_refused([](auto& c) { c.max_num_batched_tokens = 3; }), "max_num_batched_tokens");
  EXPECT_EQ(field_refused([](auto& c) { c.max_logit_rows = 3; }), "max_logit_rows");
  EXPECT_EQ(
      field_refused([](auto& c) { c.speculation = NgramSpeculation{}; }), "num_speculative_tokens"
  );
  const NgramSpeculation upside_down{
      .num_speculative_tokens = 1, .prompt_lookup_max = 2, .prompt_lookup_min = 3};
  EXPECT_EQ(field_refused([&](auto& c) { c.speculation = upside_down; }), "prompt_lookup_min");
  EXPECT_EQ(
      field_refused([](auto& c) { c.long_prefill_token_threshold = 0; }),
      "long_prefill_token_threshold"
  );
  EXPECT_EQ(
      field_refused([](auto& c) { c.num_blocks = std::numeric_limits<int32_t>::max(); }),
      "num_blocks"
  );
}

TEST(SchedulerConfig, LimitsASequenceToWhatTheWholePoolHolds) {
  SchedulerConfig config = small_config();
  EXPECT_EQ(num_sequence_tokens_max(config), 25);  // 6 blocks of 4, and a last token without a slot
  config.num_blocks = 100;
  EXPECT_EQ(num_sequence_tokens_max(config), 32);
}

TEST(SchedulerConfig, RefusesPromptsThatCanNeverRun) {
  SchedulerConfig config = small_config();
  EXPECT_TRUE(check_runnable(config, 1).ok());
  EXPECT_TRUE(check_runnable(config, 24).ok());
  EXPECT_THAT(check_runnable(config, 0).error().message, HasSubstr("no tokens"));
  EXPECT_THAT(check_runnable(config, 25).error().message, HasSubstr("KV cache holds 24"));
  EXPECT_THAT(check_runnable(config, 32).error().message, HasSubstr("max_model_len = 32"));
  EXPECT_EQ(check_runnable(config, 32).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(check_runnable(config, std::numeric_limits<size_t>::max()).error().where, "prompt");
  config.num_blocks = 100;
  EXPECT_TRUE(check_runnable(config, 31).ok());
}

}  // namespace
}  // namespace millrace
