// Blocks of scores on sixteen lanes. See lanes.h for the rules of this file.
//
// Besides the lanes, an instruction set says how it adds masses and picks lanes (`Picks`):
//   Masses                        integers, a sum each: add(weights) of 2^40 times what is counted,
//                                 truncated; sum()
//   gather(x, bound, first_id, n, ids, scores)  the first n lanes, those of them that are at least
//                                 `bound`; returns how many. May write all sixteen.
#pragma once

#include "kernels/exp_lanes.h"
#include "kernels/lanes.h"
#include "kernels/scores/score_blocks_kernel.h"

namespace millrace {
namespace {

constexpr float kNoScore = -__builtin_inff();

// x where there are scores, and none behind them.
template <class Lanes>
[[gnu::always_inline]] inline Lanes load_scores(const float* scores, size_t num_scores) {
  if (num_scores >= kLanes) return Lanes::load(scores);
  float copy[kLanes];
  for (size_t i = 0; i < kLanes; ++i) copy[i] = i < num_scores ? scores[i] : kNoScore;
  return Lanes::load(copy);
}

// Four peaks, so that one comparison need not wait for the last.
template <class Lanes>
bool find_peaks(const ScoreBlocksTask& task, float* peaks) {
  constexpr size_t kStep = 4 * kLanes;
  Lanes bad[4] = {Lanes::zero(), Lanes::zero(), Lanes::zero(), Lanes::zero()};
  bool rest_is_finite = true;
  for (size_t begin = 0; begin < task.num_scores; begin += task.block_size) {
    const size_t left = task.num_scores - begin;
    const size_t size = left < task.block_size ? left : task.block_size;
    const float* scores = task.scores + begin;
    const Lanes none = Lanes::broadcast(kNoScore);
    Lanes highest[4] = {none, none, none, none};
    size_t i = 0;
    for (; i + kStep <= size; i += kStep) {
#pragma GCC unroll 4
      for (size_t n = 0; n < 4; ++n) {
        const Lanes x = Lanes::load(scores + i + n * kLanes);
        highest[n] = Lanes::max(x, highest[n]);
        bad[n] = Lanes::fma(x, Lanes::zero(), bad[n]);  // 0, or NaN for ever
      }
    }
    const Lanes two[2] = {Lanes::max(highest[0], highest[1]), Lanes::max(highest[2], highest[3])};
    float peak = Lanes::max_of(Lanes::max(two[0], two[1]));
    for (; i < size; ++i) {
      const float score = scores[i];
      if (score > peak) peak = score;
      rest_is_finite = rest_is_finite && score - score == 0.0F;
    }
    *peaks++ = peak;
  }
  const Lanes all_bad = Lanes::add(Lanes::add(bad[0], bad[1]), Lanes::add(bad[2], bad[3]));
  return rest_is_finite && Lanes::sum(all_bad) == 0.0F;
}

template <class Lanes, class Masses>
void sum_masses(const ScoreMassesTask& task, uint64_t* masses) {
  const ScoreBlocksTask& blocks = task.blocks;
  const Lanes highest = Lanes::broadcast(task.highest);
  const Lanes temperature = Lanes::broadcast(task.temperature);
  const Lanes mass_of_best = Lanes::broadcast(task.mass_of_best);
  for (size_t begin = 0; begin < blocks.num_scores; begin += blocks.block_size) {
    const size_t left = blocks.num_scores - begin;
    const size_t size = left < blocks.block_size ? left : blocks.block_size;
    Masses sums = Masses::zero();
    for (size_t i = 0; i < size; i += kLanes) {
      const Lanes x = load_scores<Lanes>(blocks.scores + begin + i, size - i);
      const Lanes weights = exp_of_moderate(Lanes::div(Lanes::sub(x, highest), temperature));
      // What is NaN weighs nothing.
      sums.add(Lanes::mul(Lanes::max(weights, Lanes::zero()), mass_of_best));
    }
    *masses++ = sums.sum();
  }
}

template <class Lanes, class Picks>
size_t gather(const GatherScoresTask& task) {
  size_t count = 0;
  for (size_t i = 0; i < task.num_scores; i += kLanes) {
    const size_t left = task.num_scores - i;
    const Lanes x = load_scores<Lanes>(task.scores + i, left);
    count += Picks::gather(
        x,
        task.bound,
        task.first_id + static_cast<int32_t>(i),
        left < kLanes ? left : kLanes,
        task.ids + count,
        task.out_scores + count
    );
  }
  return count;
}

}  // namespace
}  // namespace millrace
