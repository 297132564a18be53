// What score_blocks.cpp asks of each instruction set. Plain data only (lanes.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace {

struct ScoreBlocksTask {
  const float* scores;  // [num_scores]
  size_t num_scores;
  size_t block_size;  // a multiple of kLanes
};

struct ScoreMassesTask {
  ScoreBlocksTask blocks;
  float highest;
  float temperature;
  float mass_of_best;
};

struct GatherScoresTask {
  const float* scores;  // [num_scores]
  size_t num_scores;
  float bound;
  int32_t first_id;
  int32_t* ids;       // [num_scores, rounded up to kLanes]
  float* out_scores;  // [num_scores, rounded up to kLanes]
};

bool find_block_peaks_reference(const ScoreBlocksTask& task, float* peaks);
bool find_block_peaks_avx2(const ScoreBlocksTask& task, float* peaks);
bool find_block_peaks_avx512(const ScoreBlocksTask& task, float* peaks);

void sum_block_masses_reference(const ScoreMassesTask& task, uint64_t* masses);
void sum_block_masses_avx2(const ScoreMassesTask& task, uint64_t* masses);
void sum_block_masses_avx512(const ScoreMassesTask& task, uint64_t* masses);

size_t gather_scores_reference(const GatherScoresTask& task);
size_t gather_scores_avx2(const GatherScoresTask& task);
size_t gather_scores_avx512(const GatherScoresTask& task);

}  // namespace millrace
