#include <immintrin.h>

#include "kernels/lanes_avx2.h"
#include "kernels/scores/score_blocks_kernel.h"
#include "kernels/scores/score_blocks_lanes.h"

namespace millrace {
namespace {

// In doubles, which there are conversions to, and which hold the integers of a block: 2^8 of them
// up to 2^40.
struct Avx2Masses {
  __m256d sums;

  [[gnu::always_inline]] static Avx2Masses zero() { return {_mm256_setzero_pd()}; }
  [[gnu::always_inline]] void add(Avx2Lanes masses) {
    const __m256d low = _mm256_add_pd(
        truncated(_mm256_castps256_ps128(masses.lo)), truncated(_mm256_extractf128_ps(masses.lo, 1))
    );
    const __m256d high = _mm256_add_pd(
        truncated(_mm256_castps256_ps128(masses.hi)), truncated(_mm256_extractf128_ps(masses.hi, 1))
    );
    sums = _mm256_add_pd(sums, _mm256_add_pd(low, high));
  }
  [[gnu::always_inline]] uint64_t sum() const {
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(sums), _mm256_extractf128_pd(sums, 1));
    return static_cast<uint64_t>(_mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two))));
  }

 private:
  [[gnu::always_inline]] static __m256d truncated(__m128 masses) {
    return _mm256_round_pd(_mm256_cvtps_pd(masses), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
  }
};

struct Avx2Picks {
  [[gnu::always_inline]] static size_t gather(
      Avx2Lanes x, float bound, int32_t first_id, size_t n, int32_t* ids, float* scores
  ) {
    const __m256 bounds = _mm256_set1_ps(bound);
    const int lo = _mm256_movemask_ps(_mm256_cmp_ps(x.lo, bounds, _CMP_GE_OQ));
    const int hi = _mm256_movemask_ps(_mm256_cmp_ps(x.hi, bounds, _CMP_GE_OQ));
    auto picked = (static_cast<uint32_t>(lo) | static_cast<uint32_t>(hi) << 8) & ((1U << n) - 1U);
    if (picked == 0) return 0;
    float all[kLanes];
    Avx2Lanes::store(all, x);
    size_t count = 0;
    for (; picked != 0; picked &= picked - 1) {
      const int lane = __builtin_ctz(picked);
      ids[count] = first_id + lane;
      scores[count++] = all[lane];
    }
    return count;
  }
};

}  // namespace

bool find_block_peaks_avx2(const ScoreBlocksTask& task, float* peaks) {
  return find_peaks<Avx2Lanes>(task, peaks);
}

void sum_block_masses_avx2(const ScoreMassesTask& task, uint64_t* masses) {
  sum_masses<Avx2Lanes, Avx2Masses>(task, masses);
}

size_t gather_scores_avx2(const GatherScoresTask& task) {
  return gather<Avx2Lanes, Avx2Picks>(task);
}

}  // namespace millrace
