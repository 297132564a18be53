#include "kernels/scores/score_blocks.h"

#include <cmath>

#include "base/check.h"
#include "kernels/dispatch.h"
#include "kernels/lanes.h"
#include "kernels/scores/score_blocks_kernel.h"

namespace millrace {
namespace {

static_assert(kScoresPerBlock % kLanes == 0, "blocks of whole lanes");

using PeaksFunction = bool (*)(const ScoreBlocksTask&, float*);
using MassesFunction = void (*)(const ScoreMassesTask&, uint64_t*);
using GatherFunction = size_t (*)(const GatherScoresTask&);

constexpr IsaVersions<PeaksFunction> kPeaks = {
    find_block_peaks_reference, find_block_peaks_avx2, find_block_peaks_avx512};
constexpr IsaVersions<MassesFunction> kMasses = {
    sum_block_masses_reference, sum_block_masses_avx2, sum_block_masses_avx512};
constexpr IsaVersions<GatherFunction> kGather = {
    gather_scores_reference, gather_scores_avx2, gather_scores_avx512};

ScoreBlocksTask blocks_of(std::span<const float> scores) {
  return {.scores = scores.data(), .num_scores = scores.size(), .block_size = kScoresPerBlock};
}

}  // namespace

bool find_block_peaks(Isa isa, std::span<const float> scores, std::span<float> peaks) {
  CHECK(peaks.size() == num_score_blocks(scores.size()), "a peak for each block");
  return kPeaks.find(isa)(blocks_of(scores), peaks.data());
}

void sum_block_masses(
    Isa isa,
    std::span<const float> scores,
    float highest,
    float temperature,
    std::span<uint64_t> masses
) {
  CHECK(masses.size() == num_score_blocks(scores.size()), "a mass for each block");
  CHECK(std::isfinite(highest) && temperature > 0.0F, "weights are of a score and a temperature");
  const ScoreMassesTask task = {
      .blocks = blocks_of(scores),
      .highest = highest,
      .temperature = temperature,
      .mass_of_best = kMassOfBest,
  };
  kMasses.find(isa)(task, masses.data());
}

size_t gather_scores(
    Isa isa, std::span<const float> scores, float bound, int32_t first_id, const GatheredScores& out
) {
  CHECK(scores.size() <= kScoresPerBlock, "scores of one block");
  return kGather.find(isa)({
      .scores = scores.data(),
      .num_scores = scores.size(),
      .bound = bound,
      .first_id = first_id,
      .ids = out.ids,
      .out_scores = out.scores,
  });
}

}  // namespace millrace
