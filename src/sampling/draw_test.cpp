#include "sampling/draw.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(DrawParams, AreThoseOfTheRequestAndThePlace) {
  const SamplingParams params = {
      .temperature = 0.5F, .top_k = -1, .top_p = 0.9F, .min_p = 0.1F, .logprobs = 64};
  const std::vector<TokenId> output = {4, 5};
  const SamplingInput input = {.params = params, .seed = 7, .choice = 2, .output = output};
  const std::optional<DrawParams> draw = draw_params(input);
  ASSERT_TRUE(draw.has_value());
  EXPECT_EQ(draw->temperature, 0.5F);
  EXPECT_EQ(draw->top_k, 0);  // all
  EXPECT_EQ(draw->top_p, 0.9F);
  EXPECT_EQ(draw->min_p, 0.1F);
  EXPECT_EQ(draw->logprobs, 64);
  EXPECT_EQ(draw->unit, draw_unit(input));
}

TEST(DrawParams, AreNoneWhereTheHostMustSeeTheScores) {
  const SamplingParams cases[] = {
      {.presence_penalty = 0.5F},
      {.frequency_penalty = 0.5F},
      {.repetition_penalty = 1.1F},
      {.logit_bias = {{3, 1.0F}}},
      {.allowed_token_ids = std::vector<TokenId>{3}},
      {.bad_words = {{3}}},
      {.min_tokens = 1},
      {.min_tokens = 1, .ignore_eos = true, .stop_token_ids = {5}},
      {.logprobs = 65},
  };
  const std::vector<TokenId> eos = {2};
  for (const SamplingParams& params : cases) {
    EXPECT_FALSE(draw_params({.params = params, .eos_token_ids = eos}));
  }
  const SamplingParams enough = {.min_tokens = 1};
  const std::vector<TokenId> output = {4};
  EXPECT_TRUE(draw_params({.params = enough, .output = output, .eos_token_ids = eos}));
}

// What benchmarks send: all tokens that were asked for, whatever they are.
TEST(DrawParams, AreThereWhereNothingEndsTheOutputEarly) {
  const std::vector<TokenId> eos = {2};
  const SamplingParams whole = {.min_tokens = 9, .ignore_eos = true};
  EXPECT_TRUE(draw_params({.params = whole, .eos_token_ids = eos}));
  EXPECT_TRUE(draw_params({.params = {.min_tokens = 9}}));
}

}  // namespace
}  // namespace millrace
