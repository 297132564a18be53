// The draw of a token, defined so that every device gives the same one: what is added up are
// integers, whose sums do not depend on their order, and all else is one rounding after the other
// of IEEE 754, none fused (docs/decisions/0018). cuda/kernels/draw.h is the same on a device.
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
#include <span>
#include <vector>

#include "base/id.h"
#include "kernels/isa.h"

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

// Of the best token, whose weight is 1. Those below a unit have no mass: 10^-12 of the best's.
constexpr float kMassOfBest = 0x1p40F;
constexpr float kWeightMin = 0x1p-40F;

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

// The lowest id of the highest score; NaN is no score, and 0 the best of none.
TokenId best_token(std::span<const float> scores);

// Holds scratch memory only. Not thread-safe; one per thread.
class ExactDraw {
 public:
  // `isa`: a matter of speed alone.
  explicit ExactDraw(Isa isa = best_isa()) : isa_(isa) {}

  // `scores`: [vocab_size], finite or -inf (NaN is never drawn); `best`: best_token() of them,
  // whose score is finite. REQUIRES: params.temperature > 0.
  TokenId draw(std::span<const float> scores, TokenId best, const DrawParams& params);

 private:
  struct Candidate {
    TokenId id;
    float score;
  };

  void weigh(std::span<const float> scores, float highest, float temperature);
  void gather_candidates(std::span<const float> scores, float min_p);
  void keep_best(size_t count);
  void keep_nucleus(float top_p);
  // Candidates [first, last) are then those of [first, end) that are best, in their order.
  void sort_best(size_t first, size_t last);
  uint64_t mass_of(const Candidate& candidate) const {
    return draw_mass(weights_[static_cast<size_t>(candidate.id)]);
  }
  uint64_t total_mass() const;
  TokenId token_at(uint64_t place) const;

  static bool is_better(const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
  }

  Isa isa_;
  std::vector<float> weights_;         // [vocab_size]
  std::vector<Candidate> candidates_;  // at most [vocab_size], by id between the steps of a draw
};

}  // namespace millrace
