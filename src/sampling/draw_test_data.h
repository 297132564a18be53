// Rows of scores and parameters to draw with, for tests of the draw on any device: seeded, all
// mixes of parameters, ties, peaks, flat rows, tokens that cannot be.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "base/rng.h"
#include "sampling/exact_draw.h"
#include "sampling/score_row.h"

namespace millrace {

// The lowest id of the highest score; NaN is no score, and 0 the best of none.
inline TokenId best_token(std::span<const float> scores) {
  float highest = -std::numeric_limits<float>::infinity();
  for (const float score : scores) highest = score > highest ? score : highest;
  const auto best = std::ranges::find(scores, highest);
  return best == scores.end() ? 0 : static_cast<TokenId>(best - scores.begin());
}

// The processor's choice: the best at temperature 0, else a draw.
inline TokenId chosen_token(
    std::span<const float> scores, const DrawParams& params, Isa isa = best_isa()
) {
  ScoreRow row(isa);
  row.read(scores);
  return params.temperature > 0.0F ? row.draw(params) : *row.best();
}

enum class DrawShape { kSpread, kFlat, kTies, kPeak, kMasked, kZeros };
constexpr DrawShape kDrawShapes[] = {
    DrawShape::kSpread,
    DrawShape::kFlat,
    DrawShape::kTies,
    DrawShape::kPeak,
    DrawShape::kMasked,
    DrawShape::kZeros,
};

// One score at least is finite.
inline std::vector<float> draw_scores(DrawShape shape, size_t size, uint64_t seed) {
  Rng rng(seed);
  const size_t peak = rng.below(size);
  std::vector<float> scores(size);
  for (size_t i = 0; i < size; ++i) {
    const auto value = static_cast<float>(rng.unit() * 24.0 - 12.0);
    switch (shape) {
      case DrawShape::kSpread:
        scores[i] = value;
        break;
      case DrawShape::kFlat:
        scores[i] = value * 1e-3F;
        break;
      case DrawShape::kTies:
        scores[i] = std::round(value / 3.0F);
        break;
      case DrawShape::kPeak:
        scores[i] = i == peak ? 40.0F : value;
        break;
      case DrawShape::kMasked: {
        const bool is_possible = i == peak || rng.below(3) == 0;
        scores[i] = is_possible ? value : -std::numeric_limits<float>::infinity();
        break;
      }
      case DrawShape::kZeros:
        scores[i] = rng.below(2) == 0 ? 0.0F : -0.0F;
        break;
    }
  }
  return scores;
}

struct DrawCase {
  uint64_t seed = 0;
  std::vector<float> scores;
  DrawParams params;

  std::string name() const {
    return "case " + std::to_string(seed) + ", " + std::to_string(scores.size()) + " scores";
  }
};

inline DrawCase draw_case(uint64_t seed) {
  Rng rng(seed);
  const size_t sizes[] = {1, 2, 31, 103, 256, 257, 600, 1025};
  const float temperatures[] = {1.0F, 0.7F, 0.01F, 2.0F, 1e-30F};
  const int32_t top_ks[] = {0, 0, 1, 2, 20, 300, 5000};
  const float top_ps[] = {1.0F, 1.0F, 0.9F, 0.5F, 1e-6F, 0.99999F};
  const float min_ps[] = {0.0F, 0.0F, 0.05F, 0.5F, 1.0F};
  const double units[] = {0.0, 0x1.fffffffffffffp-1, rng.unit(), rng.unit(), rng.unit()};
  DrawCase result;
  result.seed = seed;
  const DrawShape shape = kDrawShapes[seed % std::size(kDrawShapes)];
  result.scores = draw_scores(shape, sizes[rng.below(std::size(sizes))], seed);
  result.params.temperature = temperatures[rng.below(std::size(temperatures))];
  result.params.top_k = top_ks[rng.below(std::size(top_ks))];
  result.params.top_p = top_ps[rng.below(std::size(top_ps))];
  result.params.min_p = min_ps[rng.below(std::size(min_ps))];
  result.params.unit = units[rng.below(std::size(units))];
  return result;
}

inline std::vector<DrawCase> draw_cases(uint64_t count) {
  std::vector<DrawCase> cases;
  for (uint64_t seed = 0; seed < count; ++seed) cases.push_back(draw_case(seed));
  return cases;
}

}  // namespace millrace
