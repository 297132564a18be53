#include "kernels/lanes_avx512.h"
#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/quantized/encode_rows_lanes.h"
#include "kernels/quantized/row_tiles_lanes.h"

namespace millrace {
namespace {

struct Ops {
  template <int kStep>
  [[gnu::always_inline]] static Avx512Lanes butterfly(Avx512Lanes a) {
    // The upper lanes i, those with i & kStep, take -a: one fused operation, which rounds once as
    // an addition does.
    constexpr __mmask16 kUpper = kStep == 8   ? 0xFF00
                                 : kStep == 4 ? 0xF0F0
                                 : kStep == 2 ? 0xCCCC
                                              : 0xAAAA;
    const __m512 sign = _mm512_mask_blend_ps(kUpper, _mm512_set1_ps(1.0F), _mm512_set1_ps(-1.0F));
    return {_mm512_fmadd_ps(a.v, sign, partner<kStep>(a.v))};
  }
  [[gnu::always_inline]] static Avx512Lanes swap_middle(Avx512Lanes a) {
    return {_mm512_permute_ps(a.v, _MM_SHUFFLE(3, 1, 2, 0))};
  }
  [[gnu::always_inline]] static Avx512Lanes larger_magnitudes(Avx512Lanes a, Avx512Lanes b) {
    const __m512i bits = _mm512_castps_si512(_mm512_abs_ps(b.v));
    return {_mm512_castsi512_ps(_mm512_max_epu32(_mm512_castps_si512(_mm512_abs_ps(a.v)), bits))};
  }
  [[gnu::always_inline]] static float largest_magnitude(Avx512Lanes a) {
    const unsigned bits = _mm512_reduce_max_epu32(_mm512_castps_si512(_mm512_abs_ps(a.v)));
    float result;
    __builtin_memcpy(&result, &bits, sizeof result);
    return result;
  }
  struct ByteSums {
    __m512i fours = _mm512_setzero_si512();

    [[gnu::always_inline]] void add(__m512i bytes) {
      const __m512i pairs = _mm512_maddubs_epi16(_mm512_set1_epi8(1), bytes);
      fours = _mm512_add_epi32(fours, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
    }
    [[gnu::always_inline]] Avx512Lanes lanes() const { return {_mm512_cvtepi32_ps(fours)}; }
    [[gnu::always_inline]] int total() const { return _mm512_reduce_add_epi32(fours); }
  };
  [[gnu::always_inline]] static void store_rounded(
      unsigned char* p, const Avx512Lanes (&parts)[4], ByteSums& sums
  ) {
    // Packing takes four of each register in turn.
    const __m512i low =
        _mm512_packs_epi32(_mm512_cvtps_epi32(parts[0].v), _mm512_cvtps_epi32(parts[1].v));
    const __m512i high =
        _mm512_packs_epi32(_mm512_cvtps_epi32(parts[2].v), _mm512_cvtps_epi32(parts[3].v));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
    sums.add(bytes);
    _mm512_storeu_si512(p, bytes);
  }
  [[gnu::always_inline]] static void store_words(unsigned char* p, Avx512Lanes a) {
    const __m256i words = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(swap_middle(a).v));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), words);
  }

 private:
  // a[i ^ kStep].
  template <int kStep>
  [[gnu::always_inline]] static __m512 partner(__m512 a) {
    if constexpr (kStep == 8) return _mm512_shuffle_f32x4(a, a, _MM_SHUFFLE(1, 0, 3, 2));
    if constexpr (kStep == 4) return _mm512_shuffle_f32x4(a, a, _MM_SHUFFLE(2, 3, 0, 1));
    if constexpr (kStep == 2) return _mm512_permute_ps(a, _MM_SHUFFLE(1, 0, 3, 2));
    if constexpr (kStep == 1) return _mm512_permute_ps(a, _MM_SHUFFLE(2, 3, 0, 1));
  }
};

}  // namespace

void encode_rows_avx512(const EncodeTask& task, size_t row_begin, size_t row_end) {
  encode_lanes<Avx512Lanes, Ops>(task, row_begin, row_end);
}

void write_rotated_tiles_avx512(const RotatedTilesTask& task, size_t row_begin, size_t row_end) {
  for (size_t row = row_begin; row < row_end; ++row) {
    write_row_of_tiles<Avx512Lanes, Ops>(task, row);
  }
}

void encode_to_tiles_avx512(const ByteTilesTask& task, size_t row_begin, size_t row_end) {
  for (size_t row = row_begin; row < row_end; ++row) {
    encode_row_to_tiles<Avx512Lanes, Ops>(task, row, row + 1 < row_end ? row + 1 : row);
  }
}

void rotate_avx512(float* block, size_t size) {
  rotate_lanes<Avx512Lanes, Ops>(block, size);
}

}  // namespace millrace
