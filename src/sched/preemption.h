// Who gives up blocks when there are too few. Pure functions; used by the scheduler.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "cache/block_pool.h"
#include "sched/sequence.h"

namespace millrace {

// What preempting a sequence gains and costs.
struct PreemptionCost {
  int32_t num_blocks_gained = 0;  // those that no other sequence uses: the last ones of its table
  int32_t num_tokens_lost = 0;    // computed tokens in them
};
PreemptionCost preemption_cost(const Sequence& sequence, const BlockPool& pool);

// The index of the candidate that loses the fewest tokens for each block that is gained, of the
// `num_blocks_needed` that are of use now; of equals the last. Where all blocks are shared among
// the candidates, nobody gains one alone: the last, so that the next choice does. none: no
// candidates.
std::optional<size_t> choose_victim(
    std::span<Sequence* const> candidates, const BlockPool& pool, int32_t num_blocks_needed
);

// Bounds the work that preemptions waste. Each token that is computed for the first time earns
// credit; each that a preemption throws away costs kUsefulPerRecomputed times as much. While in
// debt the scheduler admits nobody without blocks for everyone's longest possible end, so that no
// preemption can come of it. Each admission leads to one preemption at most, so over any stretch of
// time
//   recomputed tokens <= useful tokens / kUsefulPerRecomputed + the limit
//                        + what those who ran when the debt began lose once:
// an overloaded server does not thrash. Whoever runs earns, so a debt does not last.
class RecomputeCredit {
 public:
  static constexpr int64_t kUsefulPerRecomputed = 4;

  // `num_tokens_max`: the most that can be saved up; what one wave of preemptions may cost.
  explicit RecomputeCredit(int64_t num_tokens_max)
      : max_(num_tokens_max * kUsefulPerRecomputed), credit_(max_) {}

  void earn(int64_t num_useful_tokens) { credit_ = std::min(max_, credit_ + num_useful_tokens); }
  void spend(int64_t num_lost_tokens) { credit_ -= num_lost_tokens * kUsefulPerRecomputed; }
  // These were spent, and found again or not wanted any more.
  void refund(int64_t num_tokens) { earn(num_tokens * kUsefulPerRecomputed); }
  bool is_in_debt() const { return credit_ < 0; }

 private:
  int64_t max_;
  int64_t credit_;
};

}  // namespace millrace
