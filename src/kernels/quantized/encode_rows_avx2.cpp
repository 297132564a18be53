#include "kernels/lanes_avx2.h"
#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/quantized/encode_rows_lanes.h"

namespace millrace {
namespace {

struct Ops {
  template <int kStep>
  [[gnu::always_inline]] static Avx2Lanes butterfly(Avx2Lanes a) {
    if constexpr (kStep == 8) {
      return {_mm256_add_ps(a.lo, a.hi), _mm256_sub_ps(a.lo, a.hi)};
    } else {
      return {within_eight<kStep>(a.lo), within_eight<kStep>(a.hi)};
    }
  }
  [[gnu::always_inline]] static Avx2Lanes absolute(Avx2Lanes a) {
    const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
    return {_mm256_and_ps(a.lo, mask), _mm256_and_ps(a.hi, mask)};
  }
  [[gnu::always_inline]] static Avx2Lanes larger_magnitudes(Avx2Lanes a, Avx2Lanes b) {
    const Avx2Lanes first = absolute(a);
    const Avx2Lanes second = absolute(b);
    return {larger_bits(first.lo, second.lo), larger_bits(first.hi, second.hi)};
  }
  [[gnu::always_inline]] static float largest_magnitude(Avx2Lanes a) {
    const Avx2Lanes both = absolute(a);
    const __m256i eight = _mm256_castps_si256(larger_bits(both.lo, both.hi));
    const __m128i four =
        _mm_max_epu32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
    const __m128i two = _mm_max_epu32(four, _mm_shuffle_epi32(four, _MM_SHUFFLE(1, 0, 3, 2)));
    const __m128i one = _mm_max_epu32(two, _mm_shuffle_epi32(two, _MM_SHUFFLE(2, 3, 0, 1)));
    return _mm_cvtss_f32(_mm_castsi128_ps(one));
  }
  struct ByteSums {
    __m256i fours[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};

    [[gnu::always_inline]] void add(size_t half, __m256i bytes) {
      const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), bytes);
      const __m256i products = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
      fours[half] = _mm256_add_epi32(fours[half], products);
    }
    [[gnu::always_inline]] Avx2Lanes lanes() const {
      return {_mm256_cvtepi32_ps(fours[0]), _mm256_cvtepi32_ps(fours[1])};
    }
  };
  [[gnu::always_inline]] static void store_rounded(
      unsigned char* p, const Avx2Lanes (&parts)[4], ByteSums& sums
  ) {
#pragma GCC unroll 2
    for (size_t half = 0; half < 2; ++half) {
      const __m256i bytes = thirty_two_bytes(parts[2 * half], parts[2 * half + 1]);
      sums.add(half, bytes);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32 * half), bytes);
    }
  }
  [[gnu::always_inline]] static void store_word_starts(
      unsigned char* p, const unsigned char* values, int weight_zero
  ) {
    const __m256i zero = _mm256_set1_epi16(static_cast<short>(-weight_zero));
#pragma GCC unroll 2
    for (size_t half = 0; half < 2; ++half, p += kWordStartBytes / 2) {
      // Of pairs those that are four apart are added, all in each half of the register.
      const auto* const bytes = reinterpret_cast<const __m256i*>(values + 32 * half);
      __m256i sums = _mm256_maddubs_epi16(_mm256_set1_epi8(1), _mm256_loadu_si256(bytes));
      sums = _mm256_add_epi16(sums, _mm256_shuffle_epi32(sums, _MM_SHUFFLE(1, 0, 3, 2)));
      sums = _mm256_add_epi16(sums, _mm256_shuffle_epi32(sums, _MM_SHUFFLE(2, 3, 0, 1)));
      const __m256i starts = _mm256_mullo_epi16(sums, zero);
      const int quarters[2] = {_mm256_extract_epi32(starts, 0), _mm256_extract_epi32(starts, 4)};
      __builtin_memcpy(p, quarters, sizeof quarters);
    }
  }
  [[gnu::always_inline]] static void store_words(unsigned char* p, Avx2Lanes a) {
    // Packing takes four of each register in turn, which is undone; bytes within four words.
    const __m256i packed = _mm256_packs_epi32(_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi));
    const __m256i words = _mm256_permute4x64_epi64(packed, _MM_SHUFFLE(3, 1, 2, 0));
    const __m256i order = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15)
    );
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_shuffle_epi8(words, order));
  }

 private:
  // Of floats that are not negative.
  [[gnu::always_inline]] static __m256 larger_bits(__m256 a, __m256 b) {
    return _mm256_castsi256_ps(_mm256_max_epu32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
  }
  [[gnu::always_inline]] static __m256i thirty_two_bytes(Avx2Lanes a, Avx2Lanes b) {
    // Packing takes four of each register in turn.
    const __m256i low = _mm256_packs_epi32(_mm256_cvtps_epi32(a.lo), _mm256_cvtps_epi32(a.hi));
    const __m256i high = _mm256_packs_epi32(_mm256_cvtps_epi32(b.lo), _mm256_cvtps_epi32(b.hi));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
  }
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
