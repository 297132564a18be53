#include <immintrin.h>

#include "kernels/lanes_avx512.h"
#include "kernels/scores/score_blocks_kernel.h"
#include "kernels/scores/score_blocks_lanes.h"

namespace millrace {
namespace {

struct Avx512Masses {
  __m512i lo;
  __m512i hi;

  [[gnu::always_inline]] static Avx512Masses zero() {
    return {_mm512_setzero_si512(), _mm512_setzero_si512()};
  }
  [[gnu::always_inline]] void add(Avx512Lanes masses) {
    lo = _mm512_add_epi64(lo, _mm512_cvttps_epi64(_mm512_castps512_ps256(masses.v)));
    hi = _mm512_add_epi64(hi, _mm512_cvttps_epi64(_mm512_extractf32x8_ps(masses.v, 1)));
  }
  [[gnu::always_inline]] uint64_t sum() const {
    return static_cast<uint64_t>(_mm512_reduce_add_epi64(_mm512_add_epi64(lo, hi)));
  }
};

struct Avx512Picks {
  [[gnu::always_inline]] static size_t gather(
      Avx512Lanes x, float bound, int32_t first_id, size_t n, int32_t* ids, float* scores
  ) {
    const __mmask16 is_in = n == kLanes ? __mmask16{0xFFFF} : Avx512Lanes::first_mask(n);
    const __mmask16 picked = _mm512_mask_cmp_ps_mask(is_in, x.v, _mm512_set1_ps(bound), _CMP_GE_OQ);
    if (picked == 0) return 0;
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i all_ids = _mm512_add_epi32(lanes, _mm512_set1_epi32(first_id));
    _mm512_storeu_si512(ids, _mm512_maskz_compress_epi32(picked, all_ids));
    _mm512_storeu_ps(scores, _mm512_maskz_compress_ps(picked, x.v));
    return static_cast<size_t>(__builtin_popcount(picked));
  }
};

}  // namespace

bool find_block_peaks_avx512(const ScoreBlocksTask& task, float* peaks) {
  return find_peaks<Avx512Lanes>(task, peaks);
}

void sum_block_masses_avx512(const ScoreMassesTask& task, uint64_t* masses) {
  sum_masses<Avx512Lanes, Avx512Masses>(task, masses);
}

size_t gather_scores_avx512(const GatherScoresTask& task) {
  return gather<Avx512Lanes, Avx512Picks>(task);
}

}  // namespace millrace
