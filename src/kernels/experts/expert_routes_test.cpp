#include "kernels/experts/expert_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/test_data.h"

namespace millrace {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

constexpr size_t kNumTokens = 300;  // on both threads
constexpr ExpertChoice kChoice = {.num_experts = 13, .num_per_token = 4, .normalizes = true};

// Probabilities of a token's experts, likeliest first, in float64.
std::vector<std::pair<double, size_t>> likeliest(std::span<const float> logits, size_t count) {
  std::vector<std::pair<double, size_t>> experts;
  double sum = 0.0;
  for (size_t i = 0; i < logits.size(); ++i) {
    experts.emplace_back(std::exp(static_cast<double>(logits[i])), i);
    sum += experts.back().first;
  }
  for (auto& expert : experts) expert.first /= sum;
  std::ranges::sort(experts, [](const auto& a, const auto& b) { return a.first > b.first; });
  experts.resize(count);
  return experts;
}

TEST(ExpertRoutes, TakeTheLikeliestExpertsOfEachToken) {
  ThreadPool pool(2);
  const std::vector<float> logits = random_floats(kNumTokens * kChoice.num_experts, 1);
  for (const bool normalizes : {false, true}) {
    ExpertChoice choice = kChoice;
    choice.normalizes = normalizes;
    for (const Isa isa : supported_isas()) {
      ExpertRoutes routes(choice, kNumTokens);
      std::vector<float> values = logits;
      routes.choose({isa, pool}, rows_of(values, choice.num_experts));
      for (size_t token = 0; token < kNumTokens; ++token) {
        const auto expected = likeliest(
            std::span(logits).subspan(token * choice.num_experts, choice.num_experts),
            choice.num_per_token
        );
        double sum = 0.0;
        for (const auto& expert : expected) sum += expert.first;
        for (size_t i = 0; i < choice.num_per_token; ++i) {
          ASSERT_EQ(routes.experts(token)[i], static_cast<int32_t>(expected[i].second));
          const double weight = expected[i].first / (normalizes ? sum : 1.0);
          ASSERT_NEAR(static_cast<double>(routes.weights(token)[i]), weight, 1e-6);
        }
      }
    }
  }
}

TEST(ExpertRoutes, OfEqualExpertsTakeTheFirst) {
  ThreadPool pool(1);
  ExpertRoutes routes({.num_experts = 5, .num_per_token = 3, .normalizes = false}, 2);
  std::vector<float> logits = {1, 2, 1, 2, 1, 0, 0, 0, 0, 0};
  routes.choose({Isa::kReference, pool}, rows_of(logits, 5));
  EXPECT_THAT(routes.experts(0), ElementsAre(1, 3, 0));
  EXPECT_THAT(routes.experts(1), ElementsAre(0, 1, 2));
  EXPECT_THAT(routes.weights(1), ElementsAre(FloatEq(0.2F), FloatEq(0.2F), FloatEq(0.2F)));
}

TEST(ExpertRoutes, ChooseDifferentExpertsWhateverTheLogits) {
  ThreadPool pool(1);
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  ExpertRoutes routes({.num_experts = 4, .num_per_token = 3, .normalizes = true}, 4);
  std::vector<float> logits = {
      kNan, kNan, kNan, kNan, 1, kNan, 2, 0, kInf, 0, kInf, -1, -kInf, -kInf, -kInf, -kInf};
  routes.choose({Isa::kReference, pool}, rows_of(logits, 4));
  for (size_t token = 0; token < 4; ++token) {
    std::vector<int32_t> experts(routes.experts(token).begin(), routes.experts(token).end());
    std::ranges::sort(experts);
    EXPECT_EQ(std::ranges::unique(experts).size(), 0U) << token;
    EXPECT_TRUE(experts.front() >= 0 && experts.back() < 4) << token;
  }
}

TEST(ExpertRoutes, GroupTheRoutesByExpertInTheOrderOfTokens) {
  ThreadPool pool(1);
  ExpertRoutes routes({.num_experts = 4, .num_per_token = 2, .normalizes = false}, 8);
  std::vector<float> logits = {0, 9, 0, 8, 9, 0, 0, 8, 0, 8, 0, 9};
  routes.choose({Isa::kReference, pool}, rows_of(logits, 4));
  ASSERT_EQ(routes.num_rows(), 6U);
  std::vector<std::array<size_t, 3>> groups;
  for (const RowGroup& g : routes.groups()) groups.push_back({g.part, g.row_begin, g.num_rows});
  EXPECT_THAT(
      groups,
      ElementsAre(
          std::array<size_t, 3>{0, 0, 1},
          std::array<size_t, 3>{1, 1, 2},
          std::array<size_t, 3>{3, 3, 3}
      )
  );
  std::vector<float> x = {10, 11, 20, 21, 30, 31};
  std::vector<float> grouped(12);
  routes.gather({Isa::kReference, pool}, rows_of(x, 2), rows_of(grouped, 2));
  EXPECT_THAT(grouped, ElementsAre(20, 21, 10, 11, 30, 31, 10, 11, 20, 21, 30, 31));
}

// What each expert says of a token is the token's row times the expert's number and one.
TEST(ExpertRoutes, AddUpWhatTheExpertsOfATokenSay) {
  ThreadPool pool(2);
  const Executor executor{Isa::kReference, pool};
  constexpr size_t kNumColumns = 77;
  std::vector<float> logits = random_floats(kNumTokens * kChoice.num_experts, 3);
  std::vector<float> x = random_floats(kNumTokens * kNumColumns, 4);
  std::vector<float> out = random_floats(kNumTokens * kNumColumns, 5);
  const std::vector<float> before = out;
  ExpertRoutes routes(kChoice, kNumTokens);
  routes.choose(executor, rows_of(logits, kChoice.num_experts));
  std::vector<float> grouped(routes.num_rows() * kNumColumns);
  routes.gather(executor, rows_of(x, kNumColumns), rows_of(grouped, kNumColumns));
  for (const RowGroup& group : routes.groups()) {
    const size_t end = (group.row_begin + group.num_rows) * kNumColumns;
    for (size_t i = group.row_begin * kNumColumns; i < end; ++i) {
      grouped[i] *= static_cast<float>(group.part + 1);
    }
  }
  routes.add_to(executor, rows_of(grouped, kNumColumns), rows_of(out, kNumColumns));
  for (size_t token = 0; token < kNumTokens; ++token) {
    double factor = 0.0;
    for (size_t i = 0; i < kChoice.num_per_token; ++i) {
      factor += static_cast<double>(routes.weights(token)[i]) * (routes.experts(token)[i] + 1);
    }
    for (size_t i = token * kNumColumns; i < (token + 1) * kNumColumns; ++i) {
      const double expected = static_cast<double>(before[i]) + factor * static_cast<double>(x[i]);
      ASSERT_NEAR(static_cast<double>(out[i]), expected, 1e-5);
    }
  }
}

TEST(ExpertRoutes, OfFewerTokensAreThoseOfThemAlone) {
  ThreadPool pool(1);
  const Executor executor{Isa::kReference, pool};
  std::vector<float> logits = random_floats(kNumTokens * kChoice.num_experts, 6);
  std::vector<float> few(logits.begin(), logits.begin() + 3 * kChoice.num_experts);
  ExpertRoutes all(kChoice, kNumTokens);
  ExpertRoutes some(kChoice, kNumTokens);
  all.choose(executor, rows_of(logits, kChoice.num_experts));
  some.choose(executor, rows_of(few, kChoice.num_experts));
  EXPECT_EQ(some.num_rows(), 3 * kChoice.num_per_token);
  for (size_t token = 0; token < 3; ++token) {
    EXPECT_TRUE(std::ranges::equal(all.experts(token), some.experts(token)));
    EXPECT_EQ(bits_of(all.weights(token)), bits_of(some.weights(token)));
  }
  // And again for many, after few.
  std::vector<float> again = random_floats(kNumTokens * kChoice.num_experts, 6);
  some.choose(executor, rows_of(again, kChoice.num_experts));
  EXPECT_EQ(num_rows_of(some.groups()), kNumTokens * kChoice.num_per_token);
}

TEST(AddGated, AddsRowsTimesTheSigmoidOfTheirGates) {
  ThreadPool pool(1);
  std::vector<float> gates = {0.0F, 2.0F, -200.0F};
  std::vector<float> x = {1, 2, 3, 4, 5, 6};
  std::vector<float> out = {10, 10, 10, 10, 10, 10};
  add_gated({Isa::kReference, pool}, rows_of(gates, 1), rows_of(x, 2), rows_of(out, 2));
  const float open = 1.0F / (1.0F + std::exp(-2.0F));
  EXPECT_THAT(
      out,
      ElementsAre(
          FloatEq(10.5F),
          FloatEq(11.0F),
          FloatEq(10.0F + 3 * open),
          FloatEq(10.0F + 4 * open),
          FloatEq(10.0F),
          FloatEq(10.0F)
      )
  );
}

}  // namespace
}  // namespace millrace
