#include "sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "base/rng.h"

namespace millrace {
namespace {

using testing::ElementsAre;

constexpr TokenId kEos = 7;
const std::vector<TokenId> kEosIds = {kEos};

std::vector<float> random_logits(size_t size, uint64_t seed, float scale) {
  Rng rng(seed);
  std::vector<float> logits(size);
  for (float& logit : logits) logit = scale * static_cast<float>(rng.unit() * 2.0 - 1.0);
  return logits;
}

std::vector<double> softmax(std::span<const float> logits, double temperature) {
  std::vector<double> result;
  double total = 0.0;
  for (const float logit : logits) {
    result.push_back(std::exp(static_cast<double>(logit) / temperature));
    total += result.back();
  }
  for (double& p : result) p /= total;
  return result;
}

// The distribution that the definitions of top_k, top_p and min_p give, by brute force.
std::vector<double> expected_distribution(
    std::span<const float> logits, const SamplingParams& params
) {
  std::vector<double> p = softmax(logits, static_cast<double>(params.temperature));
  std::vector<size_t> order(p.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return p[a] > p[b]; });
  const double best = p[order[0]];
  std::vector<size_t> kept;
  for (const size_t i : order) {
    if (p[i] >= static_cast<double>(params.min_p) * best) kept.push_back(i);
  }
  if (params.top_k > 0 && kept.size() > static_cast<size_t>(params.top_k)) {
    kept.resize(static_cast<size_t>(params.top_k));
  }
  double total = 0.0;
  for (const size_t i : kept) total += p[i];
  std::vector<double> result(p.size(), 0.0);
  double mass = 0.0;
  for (const size_t i : kept) {
    if (mass >= static_cast<double>(params.top_p) * total) break;
    mass += p[i];
    result[i] = p[i];
  }
  for (double& probability : result) probability /= mass;
  return result;
}

// Pearson's statistic over the tokens that can be drawn; a token that cannot must never be.
double chi_square(
    const std::vector<double>& expected, const std::map<TokenId, int>& counts, int num_draws
) {
  double statistic = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto found = counts.find(static_cast<TokenId>(i));
    const double count = found == counts.end() ? 0.0 : found->second;
    if (expected[i] == 0.0) {
      EXPECT_EQ(count, 0.0) << "token " << i << " is outside the support";
      continue;
    }
    const double wanted = expected[i] * num_draws;
    statistic += (count - wanted) * (count - wanted) / wanted;
  }
  return statistic;
}

struct DistributionCase {
  const char* name;
  SamplingParams params;
};

class SamplerDistribution : public testing::TestWithParam<DistributionCase> {};

TEST_P(SamplerDistribution, DrawsInProportionToTheDefinition) {
  const SamplingParams& params = GetParam().params;
  constexpr int kNumDraws = 20000;
  const std::vector<float> logits = random_logits(24, 11, 2.0F);
  const std::vector<double> expected = expected_distribution(logits, params);
  int num_possible = 0;
  for (const double p : expected) num_possible += p > 0.0 ? 1 : 0;

  Sampler sampler;
  std::map<TokenId, int> counts;
  for (int draw = 0; draw < kNumDraws; ++draw) {
    const SamplingInput input{.params = params, .seed = static_cast<uint64_t>(draw)};
    ++counts[sampler.sample(logits, input)->id];
  }
  // Mean k-1, variance 2(k-1): six standard deviations, for draws that are the same in every run.
  const double freedom = num_possible - 1;
  EXPECT_LT(
      chi_square(expected, counts, kNumDraws), freedom + 6.0 * std::sqrt(2.0 * freedom) + 1.0
  );
}

INSTANTIATE_TEST_SUITE_P(
    Fields,
    SamplerDistribution,
    testing::Values(
        DistributionCase{"plain", {}},
        DistributionCase{"cold", {.temperature = 0.4F}},
        DistributionCase{"hot", {.temperature = 2.0F}},
        DistributionCase{"top_k", {.top_k = 5}},
        DistributionCase{"top_p", {.top_p = 0.6F}},
        DistributionCase{"min_p", {.min_p = 0.2F}},
        DistributionCase{"all", {.temperature = 1.5F, .top_k = 9, .top_p = 0.8F, .min_p = 0.05F}}
    ),
    [](const auto& test) { return test.param.name; }
);

TEST(Sampler, DrawsIndependentlyAtEachPlaceAndChoice) {
  // Pairs of draws at neighbouring places, and of neighbouring choices, fill the square evenly.
  const std::vector<float> logits(4, 0.0F);
  const SamplingParams params;
  for (const bool over_places : {true, false}) {
    std::array<int, 16> cells{};
    Sampler sampler;
    for (uint64_t seed = 0; seed < 16000; ++seed) {
      const std::vector<TokenId> none;
      const std::vector<TokenId> one = {0};
      const TokenId first =
          sampler.sample(logits, {.params = params, .seed = seed, .output = none})->id;
      const SamplingInput next{
          .params = params,
          .seed = seed,
          .choice = over_places ? 0 : 1,
          .output = over_places ? one : none,
      };
      ++cells[static_cast<size_t>(first * 4 + sampler.sample(logits, next)->id)];
    }
    double statistic = 0.0;
    for (const int count : cells) statistic += (count - 1000.0) * (count - 1000.0) / 1000.0;
    EXPECT_LT(statistic, 15.0 + 6.0 * std::sqrt(30.0));
  }
}

TEST(Sampler, GivesTheSameTokenWhateverRanBefore) {
  const std::vector<float> logits = random_logits(100, 3, 1.0F);
  const SamplingParams params{.top_p = 0.9F};
  const SamplingInput input{.params = params, .seed = 42};
  const TokenId alone = Sampler().sample(logits, input)->id;
  Sampler used;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const SamplingParams other{.top_k = 3, .frequency_penalty = 1.0F};
    (void)used.sample(random_logits(50, seed, 4.0F), {.params = other, .seed = seed});
  }
  EXPECT_EQ(used.sample(logits, input)->id, alone);
}

TEST(Sampler, AskingForLogprobsDoesNotChangeTheToken) {
  const std::vector<float> logits = random_logits(100, 5, 1.0F);
  SamplingParams params;
  Sampler sampler;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    params.logprobs = std::nullopt;
    const TokenId without = sampler.sample(logits, {.params = params, .seed = seed})->id;
    params.logprobs = 5;
    EXPECT_EQ(sampler.sample(logits, {.params = params, .seed = seed})->id, without);
  }
}

TEST(Sampler, GreedyTakesTheLowestIdOfATie) {
  const std::vector<float> logits = {0.0F, 3.0F, 1.0F, 3.0F};
  const SamplingParams params{.temperature = 0.0F};
  EXPECT_EQ(Sampler().sample(logits, {.params = params})->id, 1);
}

TEST(Sampler, TopKOfATieKeepsTheLowestIds) {
  const std::vector<float> logits(10, 1.0F);
  const SamplingParams params{.top_k = 2};
  Sampler sampler;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    EXPECT_LT(sampler.sample(logits, {.params = params, .seed = seed})->id, 2);
  }
}

TEST(Sampler, LogprobsAreTheModelsOwnAndChosenComesFirst) {
  const std::vector<float> logits = {1.0F, 2.0F, 3.0F, 0.0F};
  const SamplingParams params{.temperature = 0.0F, .logit_bias = {{3, 50.0F}}, .logprobs = 2};
  const SampledToken token = *Sampler().sample(logits, {.params = params});
  EXPECT_EQ(token.id, 3);  // by its bias
  ASSERT_EQ(token.logprobs.size(), 3U);
  const std::vector<double> p = softmax(logits, 1.0);
  const std::vector<TokenId> order = {3, 2, 1};
  for (size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(token.logprobs[i].id, order[i]);
    EXPECT_NEAR(token.logprobs[i].logprob, std::log(p[static_cast<size_t>(order[i])]), 1e-6);
  }
}

TEST(Sampler, ZeroLogprobsStillGivesTheChosenToken) {
  const std::vector<float> logits = {1.0F, 2.0F};
  const SamplingParams params{.temperature = 0.0F, .logprobs = 0};
  EXPECT_EQ(Sampler().sample(logits, {.params = params})->logprobs.size(), 1U);
}

TEST(Sampler, ConstraintsMaskTokens) {
  const std::vector<float> logits = {5.0F, 4.0F, 3.0F, 2.0F, 1.0F, 0.0F, 0.0F, 0.0F};
  const std::vector<TokenId> output = {2, 1};
  Sampler sampler;
  const auto greedy = [&](SamplingParams params, std::span<const TokenId> generated = {}) {
    params.temperature = 0.0F;
    const SamplingInput input{.params = params, .output = generated, .eos_token_ids = kEosIds};
    return sampler.sample(logits, input)->id;
  };
  EXPECT_EQ(greedy({.allowed_token_ids = std::vector<TokenId>{4, 2, 3}}), 2);
  EXPECT_EQ(greedy({.bad_words = {{0}, {1}}}), 2);
  EXPECT_EQ(greedy({.bad_words = {{2, 1, 0}}}, output), 1);
  EXPECT_EQ(greedy({.bad_words = {{1, 1, 0}}}, output), 0);
  EXPECT_EQ(greedy({.bad_words = {{9, 2, 1, 0}}}, output), 0);  // longer than the output
  EXPECT_EQ(greedy({.logit_bias = {{4, 10.0F}}}), 4);
  EXPECT_EQ(greedy({.max_tokens = 9, .min_tokens = 3, .stop_token_ids = {0}}, output), 1);
  EXPECT_EQ(greedy({.max_tokens = 9, .min_tokens = 2, .stop_token_ids = {0}}, output), 0);
}

TEST(Sampler, HoldsBackEosUntilMinTokensUnlessItIsIgnored) {
  std::vector<float> logits(10, 0.0F);
  logits[kEos] = 5.0F;
  logits[3] = 1.0F;
  Sampler sampler;
  SamplingParams params{.temperature = 0.0F, .min_tokens = 1};
  EXPECT_EQ(sampler.sample(logits, {.params = params, .eos_token_ids = kEosIds})->id, 3);
  params.ignore_eos = true;
  EXPECT_EQ(sampler.sample(logits, {.params = params, .eos_token_ids = kEosIds})->id, kEos);
}

TEST(Sampler, PenaltiesFollowTheirFormulas) {
  const std::vector<float> logits = {2.0F, 1.9F, -1.0F, -1.05F};
  const std::vector<TokenId> prompt = {0};
  const std::vector<TokenId> output = {1, 1};
  Sampler sampler;
  const auto chosen = [&](SamplingParams params, std::vector<TokenId> allowed) {
    params.temperature = 0.0F;
    params.allowed_token_ids = std::move(allowed);
    return sampler.sample(logits, {.params = params, .prompt = prompt, .output = output})->id;
  };
  // Repetition: over prompt and output; divides a positive score and multiplies a negative one.
  EXPECT_EQ(chosen({.repetition_penalty = 1.01F}, {0, 1}), 0);  // both are divided
  EXPECT_EQ(chosen({.repetition_penalty = 4.0F}, {0, 2}), 0);
  const std::vector<TokenId> both = {2};
  SamplingParams negative{
      .temperature = 0.0F,
      .repetition_penalty = 1.1F,
      .allowed_token_ids = std::vector<TokenId>{2, 3},
  };
  EXPECT_EQ(sampler.sample(logits, {.params = negative, .output = both})->id, 3);
  // Presence and frequency: over the output alone; frequency counts.
  EXPECT_EQ(chosen({.presence_penalty = 2.0F}, {0, 1}), 0);
  EXPECT_EQ(chosen({.presence_penalty = 1.5F}, {1, 2}), 1);
  EXPECT_EQ(chosen({.frequency_penalty = 1.5F}, {1, 2}), 2);
}

TEST(Sampler, PenalizesATokenOnceHoweverOftenItWasSeen) {
  const std::vector<float> logits = {2.0F, 1.5F, -1.0F};
  const std::vector<TokenId> seen = {0, 2, 0};
  const SamplingParams params{.temperature = 0.0F, .repetition_penalty = 1.2F};
  Sampler sampler;
  EXPECT_EQ(sampler.sample(logits, {.params = params, .prompt = seen, .output = seen})->id, 0);
  const SamplingParams present{.temperature = 0.0F, .presence_penalty = 0.4F};
  EXPECT_EQ(sampler.sample(logits, {.params = present, .prompt = seen, .output = seen})->id, 0);
}

TEST(Sampler, SaysWhenNoTokenIsLeft) {
  const std::vector<float> logits(10, 1.0F);
  const SamplingParams params{.allowed_token_ids = std::vector<TokenId>{3}, .bad_words = {{3}}};
  EXPECT_FALSE(Sampler().sample(logits, {.params = params, .eos_token_ids = kEosIds}));
}

TEST(Sampler, NeverDrawsAForbiddenToken) {
  std::vector<float> logits(8, 0.0F);
  logits[2] = -std::numeric_limits<float>::infinity();
  const SamplingParams params{.temperature = 2.0F, .bad_words = {{5}}};
  Sampler sampler;
  for (uint64_t seed = 0; seed < 500; ++seed) {
    const TokenId id = sampler.sample(logits, {.params = params, .seed = seed})->id;
    EXPECT_NE(id, 2);
    EXPECT_NE(id, 5);
  }
}

}  // namespace
}  // namespace millrace
