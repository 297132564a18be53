// Tokens and masses against the definition of exact_draw.h, computed the slow way.
#include "sampling/exact_draw.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>

#include "kernels/exp.h"
#include "sampling/draw_test_data.h"
#include "sampling/sampler.h"
#include "sampling/score_row.h"

namespace millrace {
namespace {

// The definition, word for word: all candidates sorted, kept, and added up by id.
TokenId defined_token(std::span<const float> scores, const DrawParams& params) {
  const float highest = scores[static_cast<size_t>(best_token(scores))];
  std::vector<float> weights;
  std::vector<TokenId> kept;
  for (size_t i = 0; i < scores.size(); ++i) {
    weights.push_back(exp_reference((scores[i] - highest) / params.temperature));
    if (weights[i] >= std::max(params.min_p, 0x1p-40F)) kept.push_back(static_cast<TokenId>(i));
  }
  const auto mass = [&](TokenId id) { return draw_mass(weights[static_cast<size_t>(id)]); };
  const auto mass_of_kept = [&] {
    uint64_t sum = 0;
    for (const TokenId id : kept) sum += mass(id);
    return sum;
  };
  std::ranges::stable_sort(kept, [&](TokenId a, TokenId b) {
    return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)];
  });
  if (params.top_k > 0) kept.resize(std::min(kept.size(), static_cast<size_t>(params.top_k)));
  if (params.top_p < 1.0F) {
    const uint64_t wanted = nucleus_mass(params.top_p, mass_of_kept());
    size_t count = 0;
    for (uint64_t sum = 0; sum < wanted; ++count) sum += mass(kept[count]);
    kept.resize(count);
  }
  std::ranges::sort(kept);
  const uint64_t place = draw_place(params.unit, mass_of_kept());
  uint64_t sum = 0;
  for (const TokenId id : kept) {
    sum += mass(id);
    if (sum > place) return id;
  }
  return -1;
}

TEST(ExactDraw, IsTheDefinitionForEveryMixOfParameters) {
  for (const Isa isa : supported_isas()) {
    ScoreRow row(isa);
    for (const DrawCase& c : draw_cases(3000)) {
      row.read(c.scores);
      ASSERT_EQ(row.draw(c.params), defined_token(c.scores, c.params)) << c.name();
    }
  }
}

// Nuclei of some tokens, of most and of all, in rows that are flat, full of ties or peaked, with
// more tokens than are sorted at once.
TEST(ExactDraw, IsTheDefinitionForLongRows) {
  for (const DrawShape shape : kDrawShapes) {
    const std::vector<float> scores = draw_scores(shape, 70001, 9);
    ScoreRow row;
    row.read(scores);
    uint64_t place = 0;
    for (const float temperature : {0.3F, 1.0F, 4.0F}) {
      for (const float top_p : {0.01F, 0.5F, 0.9F, 0.9999F, 1.0F}) {
        for (const int32_t top_k : {0, 1, 50, 300, 5000, 70001}) {
          const DrawParams params = {
              .temperature = temperature,
              .top_k = top_k,
              .top_p = top_p,
              .min_p = place % 3 == 0 ? 0.01F : 0.0F,
              .unit = random_unit(1, place++)};
          ASSERT_EQ(row.draw(params), defined_token(scores, params))
              << static_cast<int>(shape) << ", " << temperature << ", " << top_p << ", " << top_k;
        }
      }
    }
  }
}

// No order of addition, and no machine, may give others: goldens of masses and places.
TEST(ExactDraw, CountsInIntegers) {
  EXPECT_EQ(draw_mass(1.0F), uint64_t{1} << 40);
  EXPECT_EQ(draw_mass(exp_reference(-1.0F)), 404487733248U);
  EXPECT_EQ(draw_mass(0x1p-40F), 1U);
  EXPECT_EQ(draw_mass(0x1.fffffep-41F), 0U);
  EXPECT_EQ(nucleus_mass(0.5F, 7), 3U);
  EXPECT_EQ(nucleus_mass(1e-30F, 7), 1U);
  EXPECT_EQ(nucleus_mass(0x1.fffffep-1F, (uint64_t{1} << 58) - 1), 0x3fffffc00000000U);
  EXPECT_EQ(draw_place(0.0, 5), 0U);
  EXPECT_EQ(draw_place(0x1.fffffffffffffp-1, (uint64_t{1} << 58) - 1), (uint64_t{1} << 58) - 32);
  EXPECT_EQ(draw_place(0x1.fffffffffffffp-1, 1), 0U);
}

TEST(ExactDraw, NeverDrawsWhatIsNoNumberOrImpossible) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> scores = {nan, -infinity, 1.0F, nan, 2.0F, -infinity};
  ScoreRow row;
  row.read(scores);
  EXPECT_EQ(row.best(), 4);
  for (uint64_t i = 0; i < 100; ++i) {
    for (const float top_p : {0.99F, 1.0F}) {
      const TokenId id = row.draw({.temperature = 2.0F, .top_p = top_p, .unit = random_unit(2, i)});
      EXPECT_TRUE(id == 2 || id == 4);
    }
  }
  const SamplingParams params;
  EXPECT_FALSE(Sampler().sample(std::vector<float>{nan, nan}, {.params = params}));
}

}  // namespace
}  // namespace millrace
