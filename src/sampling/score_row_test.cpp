// What is read of a row besides its draws (exact_draw_test.cpp).
#include "sampling/score_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sampling/draw_test_data.h"

namespace millrace {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(ScoreRow, FindsTheLowestIdOfTheBestInEveryPlace) {
  ScoreRow row;
  for (const size_t size : {1U, 15U, 16U, 70U, 256U, 257U, 300U, 530U}) {
    for (size_t place = 0; place < size; ++place) {
      std::vector<float> scores(size, -2.0F);
      scores[place] = -1.0F;
      scores[size - 1] = -1.0F;
      row.read(scores);
      ASSERT_EQ(row.best(), static_cast<TokenId>(place)) << size;
    }
  }
}

TEST(ScoreRow, HasNoBestWhereNothingIsFinite) {
  ScoreRow row;
  for (const float score : {kNan, -kInfinity, kInfinity}) {
    const std::vector<float> scores(20, score);
    row.read(scores);
    EXPECT_EQ(row.best(), std::nullopt);
    EXPECT_FALSE(row.are_finite());
  }
}

TEST(ScoreRow, SeesWhatIsNotFiniteInEveryPlace) {
  ScoreRow row;
  std::vector<float> scores = draw_scores(DrawShape::kSpread, 531, 3);
  row.read(scores);
  EXPECT_TRUE(row.are_finite());
  for (float& score : scores) {
    const float kept = score;
    for (const float bad : {kNan, kInfinity, -kInfinity}) {
      score = bad;
      row.read(scores);
      ASSERT_FALSE(row.are_finite()) << &score - scores.data();
    }
    score = kept;
  }
}

TEST(ScoreRow, AddsUpExponentials) {
  ScoreRow row;
  for (const DrawShape shape : kDrawShapes) {
    for (const size_t size : {1U, 100U, 5000U}) {
      const std::vector<float> scores = draw_scores(shape, size, size);
      long double sum = 0.0L;
      for (const float score : scores) sum += std::exp(static_cast<long double>(score));
      row.read(scores);
      // Each weight is a float, and less than 2^-40 of the best is nothing.
      EXPECT_NEAR(row.log_sum_exp(), static_cast<double>(std::log(sum)), 2e-7);
      EXPECT_GE(row.log_sum_exp(), static_cast<double>(std::ranges::max(scores)));
    }
  }
}

TEST(ScoreRow, ListsTheBestTokensBestFirst) {
  ScoreRow row;
  for (const DrawShape shape : kDrawShapes) {
    const std::vector<float> scores = draw_scores(shape, 3000, 5);
    std::vector<TokenId> ids(scores.size());
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i);
    std::ranges::stable_sort(ids, [&](TokenId a, TokenId b) {
      return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
    });
    row.read(scores);
    for (const size_t count : {0U, 1U, 5U, 12U, 13U, 200U, 3000U, 4000U}) {
      std::vector<TokenId> found;
      for (const RankedToken& token : row.best_tokens(count)) {
        found.push_back(token.id);
        EXPECT_EQ(token.score, row.score_of(token.id));
      }
      const size_t num_expected = std::min(count, ids.size());
      ASSERT_TRUE(std::ranges::equal(found, std::span(ids).first(num_expected))) << count;
    }
  }
}

}  // namespace
}  // namespace millrace
