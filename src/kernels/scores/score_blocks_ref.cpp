#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/exp.h"
#include "kernels/scores/score_blocks_kernel.h"

namespace millrace {

bool find_block_peaks_reference(const ScoreBlocksTask& task, float* peaks) {
  bool all_finite = true;
  for (size_t begin = 0; begin < task.num_scores; begin += task.block_size) {
    const size_t end = std::min(begin + task.block_size, task.num_scores);
    float peak = -std::numeric_limits<float>::infinity();
    for (size_t i = begin; i < end; ++i) {
      if (task.scores[i] > peak) peak = task.scores[i];
      all_finite = all_finite && std::isfinite(task.scores[i]);
    }
    *peaks++ = peak;
  }
  return all_finite;
}

void sum_block_masses_reference(const ScoreMassesTask& task, uint64_t* masses) {
  const ScoreBlocksTask& blocks = task.blocks;
  for (size_t begin = 0; begin < blocks.num_scores; begin += blocks.block_size) {
    const size_t end = std::min(begin + blocks.block_size, blocks.num_scores);
    uint64_t mass = 0;
    for (size_t i = begin; i < end; ++i) {
      const float weight = exp_reference((blocks.scores[i] - task.highest) / task.temperature);
      if (!std::isnan(weight)) mass += static_cast<uint64_t>(weight * task.mass_of_best);
    }
    *masses++ = mass;
  }
}

size_t gather_scores_reference(const GatherScoresTask& task) {
  size_t count = 0;
  for (size_t i = 0; i < task.num_scores; ++i) {
    if (!(task.scores[i] >= task.bound)) continue;
    task.ids[count] = task.first_id + static_cast<int32_t>(i);
    task.out_scores[count++] = task.scores[i];
  }
  return count;
}

}  // namespace millrace
