// A row of scores, read once, and the choices of a token from it: the best, a draw by exact_draw.h,
// the best few. How long a draw takes depends on the row, and little: a pass or two over it,
// sorting nothing but a few hundred tokens, however flat it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/id.h"
#include "kernels/isa.h"
#include "sampling/candidates.h"
#include "sampling/exact_draw.h"

namespace millrace {

// Holds scratch memory, and borrows the row that it read last. Not thread-safe; one per thread.
class ScoreRow {
 public:
  // `isa`: a matter of speed alone.
  explicit ScoreRow(Isa isa = best_isa()) : isa_(isa) {}

  // `scores`: [vocab_size], at least one, until the next row is read. What else is here is of it.
  void read(std::span<const float> scores);

  bool are_finite() const { return are_finite_; }
  std::span<const float> scores() const { return scores_; }
  float score_of(TokenId id) const { return scores_[static_cast<size_t>(id)]; }

  // The lowest id of the highest score. nullopt: no score is finite.
  std::optional<TokenId> best() const;

  // -inf and NaN are never drawn. REQUIRES: best(), and params.temperature > 0.
  TokenId draw(const DrawParams& params);

  // log(sum(exp(score))): to 2^-40 of the best one's share for each token, never less than the
  // highest score. One value for one row, always. REQUIRES: best().
  double log_sum_exp();

  // Best first, at most so many; NaN is none.
  std::vector<RankedToken> best_tokens(size_t count);

 private:
  uint64_t sum_masses(float temperature);
  TokenId token_at(uint64_t place, float temperature);
  void gather_nucleus(const DrawParams& params, uint64_t mass);
  void gather_few(const DrawParams& params);
  void gather(float bound) { candidates_.gather(isa_, scores_, peaks_, bound); }
  float peak_of_rank(size_t rank);

  Isa isa_;
  std::span<const float> scores_;
  std::vector<float> peaks_;  // [blocks]
  float highest_ = 0.0F;
  bool are_finite_ = false;

  std::vector<uint64_t> masses_;  // [blocks], of the last temperature
  std::vector<float> ranked_peaks_;
  Candidates candidates_;
};

}  // namespace millrace
