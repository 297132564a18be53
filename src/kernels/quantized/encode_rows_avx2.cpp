#include "kernels/lanes_avx2.h"
#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/quantized/encode_rows_lanes.h"

namespace millrace {
namespace {

struct Ops {
  template <int kStep>
  [[gnu::always_inline]] static Avx2Lanes butterfly(Avx2Lanes a) {
    if constexpr (kStep == 8) return {_mm256_add_ps(a.lo, a.hi), _mm256_sub_ps(a.lo, a.hi)};
    return {within_eight<kStep>(a.lo), within_eight<kStep>(a.hi)};
  }
  [[gnu::always_inline]] static Avx2Lanes absolute(Avx2Lanes a) {
    const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
    return {_mm256_and_ps(a.lo, mask), _mm256_and_ps(a.hi, mask)};
  }
  [[gnu::always_inline]] static void store_low_bytes(unsigned char* p, Avx2Lanes a) {
    const __m256i low = _mm256_set1_epi32(0xFF);
    const __m256i first = _mm256_and_si256(_mm256_castps_si256(a.lo), low);
    const __m256i second = _mm256_and_si256(_mm256_castps_si256(a.hi), low);
    // Packing works within 128-bit halves; the permutation puts the quarters back in order.
    const __m256i words =
        _mm256_permute4x64_epi64(_mm256_packus_epi32(first, second), _MM_SHUFFLE(3, 1, 2, 0));
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  }

 private:
  template <int kStep>
  [[gnu::always_inline]] static __m256 within_eight(__m256 a) {
    __m256 other;
    if constexpr (kStep == 4) other = _mm256_permute2f128_ps(a, a, 1);
    if constexpr (kStep == 2) other = _mm256_permute_ps(a, _MM_SHUFFLE(1, 0, 3, 2));
    if constexpr (kStep == 1) other = _mm256_permute_ps(a, _MM_SHUFFLE(2, 3, 0, 1));
    constexpr int kUpper = kStep == 4 ? 0xF0 : kStep == 2 ? 0xCC : 0xAA;
    return _mm256_blend_ps(_mm256_add_ps(a, other), _mm256_sub_ps(other, a), kUpper);
  }
};

}  // namespace

void encode_rows_avx2(const EncodeTask& task, size_t row_begin, size_t row_end) {
  encode_lanes<Avx2Lanes, Ops>(task, row_begin, row_end);
}

void rotate_avx2(float* block, size_t size) {
  rotate_lanes<Avx2Lanes, Ops>(block, size);
}

}  // namespace millrace
