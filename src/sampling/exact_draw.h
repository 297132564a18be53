// The draw of a token, defined so that every device gives the same one: what is added up are
// integers, whose sums do not depend on their order, and all else is one rounding after the other
// of IEEE 754, none fused (docs/decisions/0018). score_row.h makes it on the processor,
// cuda/kernels/draw.h on a device.
//
//   w[i]     = exp((score[i] - highest score) / temperature), float32, by kernels/exp.h
//   mass[i]  = floor(w[i] * 2^40): a vocabulary's masses add up to less than 2^58
//   candidates: w[i] >= max(min_p, 2^-40)
//   top_k    keeps so many of the best candidates: by score, descending; of equal ones the lower id
//   top_p    keeps the fewest best of them that hold nucleus_mass(top_p, their mass)
//   the token: the first, by id, with which the mass of those kept exceeds draw_place(unit, mass)
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "kernels/scores/score_blocks.h"

namespace millrace {

// The choice of a token from a row of scores: what it depends on, as a value that may go to another
// device than the one that knows the request.
struct DrawParams {
  float temperature = 0.0F;  // 0: the most likely token
  int32_t top_k = 0;         // 0: all
  float top_p = 1.0F;
  float min_p = 0.0F;
  double unit = 0.0;                     // uniform in [0, 1): the random number of this place
  std::optional<int32_t> logprobs = {};  // as SamplingParams::logprobs
};

// The best token's weight is 1, and its mass kMassOfBest. What weighs less than a unit of that has
// no mass: 10^-12 of the best's.
constexpr float kWeightMin = 1.0F / kMassOfBest;

// REQUIRES: weight in [0, 1].
constexpr uint64_t draw_mass(float weight) {
  return static_cast<uint64_t>(weight * kMassOfBest);
}

// At least 1 and at most `total`, whatever a product of doubles is rounded to. REQUIRES: total > 0.
constexpr uint64_t nucleus_mass(float top_p, uint64_t total) {
  const double share = static_cast<double>(top_p) * static_cast<double>(total);
  return std::clamp(static_cast<uint64_t>(share), uint64_t{1}, total);
}

// In [0, total). REQUIRES: total > 0.
constexpr uint64_t draw_place(double unit, uint64_t total) {
  return std::min(static_cast<uint64_t>(unit * static_cast<double>(total)), total - 1);
}

}  // namespace millrace
