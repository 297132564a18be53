// A row of scores (logits, or what became of them) as the choice of a token reads it: in blocks of
// consecutive ids. Peaks say which blocks hold the best scores, so that the others need not be
// looked at; masses, which block a place of the draw lies in (sampling/exact_draw.h). The same bits
// on every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/math.h"
#include "kernels/isa.h"

namespace millrace {

// Peaks of a vocabulary of 152k are 2.4 KB, and a block is read in 20 ns.
constexpr size_t kScoresPerBlock = 256;

// What the weight 1 counts: an integer, so that sums do not depend on their order.
constexpr float kMassOfBest = 0x1p40F;

constexpr size_t num_score_blocks(size_t num_scores) {
  return div_ceil(num_scores, kScoresPerBlock);
}

// peaks[b]: the highest score of block b, -inf if it has none; NaN is none. `peaks`:
// [num_score_blocks(scores.size())]. Returns whether all scores are finite.
bool find_block_peaks(Isa isa, std::span<const float> scores, std::span<float> peaks);

// masses[b]: the sum of floor(exp((score - highest) / temperature) * kMassOfBest) over block b, one
// rounding after the other and the exponential of kernels/exp.h; NaN adds nothing. `masses`:
// [num_score_blocks(scores.size())]. REQUIRES: highest is finite, no score is higher, and
// temperature > 0.
void sum_block_masses(
    Isa isa,
    std::span<const float> scores,
    float highest,
    float temperature,
    std::span<uint64_t> masses
);

// Scores of a block that are at least a bound, in the order of their places.
struct GatheredScores {
  int32_t* ids = nullptr;   // [kScoresPerBlock]: room for all of them
  float* scores = nullptr;  // [kScoresPerBlock]
};

// Writes places from `first_id` on. `scores`: at most kScoresPerBlock. Returns how many there are;
// what lies behind them in `out` is anything.
size_t gather_scores(
    Isa isa, std::span<const float> scores, float bound, int32_t first_id, const GatheredScores& out
);

}  // namespace millrace
