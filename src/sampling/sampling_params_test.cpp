#include "sampling/sampling_params.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace millrace {
namespace {

constexpr SamplingLimits kLimits{.vocab_size = 100};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::string refused_field(const SamplingParams& params) {
  const Result<void> result = validate(params, kLimits);
  return result ? "" : result.error().where;
}

TEST(SamplingParams, DefaultsAndExtremesAreTaken) {
  EXPECT_TRUE(validate({}, kLimits));
  EXPECT_TRUE(validate({.temperature = 2.0F, .top_k = -1, .top_p = 1e-6F, .min_p = 1.0F}, kLimits));
  EXPECT_TRUE(validate({.presence_penalty = -2.0F, .frequency_penalty = 2.0F}, kLimits));
  EXPECT_TRUE(validate({.logit_bias = {{0, 100.0F}, {99, -100.0F}}, .n = 128}, kLimits));
  EXPECT_TRUE(validate({.max_tokens = 5, .min_tokens = 5, .logprobs = 20}, kLimits));
}

TEST(SamplingParams, EachFieldIsRefusedByItsName) {
  const std::vector<std::pair<SamplingParams, std::string>> cases = {
      {{.temperature = -0.1F}, "temperature"},
      {{.temperature = 2.1F}, "temperature"},
      {{.temperature = kNan}, "temperature"},
      {{.temperature = kInfinity}, "temperature"},
      {{.top_k = -2}, "top_k"},
      {{.top_k = std::numeric_limits<int32_t>::min()}, "top_k"},
      {{.top_p = 0.0F}, "top_p"},
      {{.top_p = 1.5F}, "top_p"},
      {{.top_p = kNan}, "top_p"},
      {{.min_p = -0.1F}, "min_p"},
      {{.min_p = kNan}, "min_p"},
      {{.presence_penalty = 2.5F}, "presence_penalty"},
      {{.frequency_penalty = kNan}, "frequency_penalty"},
      {{.repetition_penalty = 0.0F}, "repetition_penalty"},
      {{.repetition_penalty = kInfinity}, "repetition_penalty"},
      {{.logit_bias = {{100, 1.0F}}}, "logit_bias.100"},
      {{.logit_bias = {{-1, 1.0F}}}, "logit_bias.-1"},
      {{.logit_bias = {{1, 101.0F}}}, "logit_bias.1"},
      {{.logit_bias = {{1, kNan}}}, "logit_bias.1"},
      {{.allowed_token_ids = std::vector<TokenId>{}}, "allowed_token_ids"},
      {{.allowed_token_ids = std::vector<TokenId>{5, 100}}, "allowed_token_ids[1]"},
      {{.bad_words = {{}}}, "bad_words[0]"},
      {{.bad_words = {{1}, {1, 100}}}, "bad_words[1]"},
      {{.bad_words = std::vector<std::vector<TokenId>>(3000, {1})}, "bad_words"},
      {{.allowed_token_ids = std::vector<TokenId>(101, 1)}, "allowed_token_ids"},
      {{.bad_words = {std::vector<TokenId>(100, 1)}}, "bad_words[0]"},
      {{.max_tokens = 0}, "max_tokens"},
      {{.max_tokens = 5, .min_tokens = 6}, "min_tokens"},
      {{.min_tokens = -1}, "min_tokens"},
      {{.stop_token_ids = {100}}, "stop_token_ids[0]"},
      {{.stop_token_ids = std::vector<TokenId>(2000, 1)}, "stop_token_ids"},
      {{.n = 0}, "n"},
      {{.n = 129}, "n"},
      {{.logprobs = 21}, "logprobs"},
      {{.logprobs = -1}, "logprobs"},
      {{.prompt_logprobs = 21}, "prompt_logprobs"},
  };
  for (const auto& [params, field] : cases) EXPECT_EQ(refused_field(params), field);
}

TEST(SamplingParams, TheMessageSaysWhatWasExpectedAndWhatCame) {
  const Result<void> result = validate({.temperature = 3.0F}, kLimits);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "temperature must be between 0 and 2, got 3");
  // As people write it, not as the nearest double.
  EXPECT_EQ(
      validate({.temperature = 2.1F}, kLimits).error().message,
      "temperature must be between 0 and 2, got 2.1"
  );
}

TEST(SamplingParams, EveryKeyThatIsNoTokenIsNamed) {
  EXPECT_EQ(
      validate({.logit_bias = {{5, 1.0F}, {100, 1.0F}, {-3, 1.0F}}}, kLimits).error().message,
      "logit_bias must have token ids below 100 as keys, got 100, -3"
  );
}

TEST(SamplingParams, TheReasonSaysHowItIsWrong) {
  const auto reason = [](const SamplingParams& params) {
    return validate(params, kLimits).error().reason;
  };
  EXPECT_EQ(reason({.temperature = -1.0F}), "decimal_below_min_value");
  EXPECT_EQ(reason({.temperature = kInfinity}), "decimal_above_max_value");
  EXPECT_EQ(reason({.top_p = 0.0F}), "decimal_below_min_value");
  EXPECT_EQ(reason({.repetition_penalty = kInfinity}), "decimal_above_max_value");
  EXPECT_EQ(reason({.stop_token_ids = {-1}}), "integer_below_min_value");
  EXPECT_EQ(reason({.stop_token_ids = {100}}), "integer_above_max_value");
  EXPECT_EQ(reason({.stop_token_ids = std::vector<TokenId>(2000, 1)}), "array_above_max_length");
  EXPECT_EQ(reason({.n = 129}), "integer_above_max_value");
  EXPECT_EQ(reason({.max_tokens = 5, .min_tokens = 6}), "integer_above_max_value");
}

}  // namespace
}  // namespace millrace
