#include "kernels/lanes_avx512.h"
#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/quantized/encode_rows_lanes.h"

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
  [[gnu::always_inline]] static Avx512Lanes absolute(Avx512Lanes a) { return {_mm512_abs_ps(a.v)}; }
  [[gnu::always_inline]] static void store_low_bytes(unsigned char* p, Avx512Lanes a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_castps_si512(a.v)));
  }
  [[gnu::always_inline]] static Avx512Lanes swap_middle(Avx512Lanes a) {
    return {_mm512_permute_ps(a.v, _MM_SHUFFLE(3, 1, 2, 0))};
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

void rotate_avx512(float* block, size_t size) {
  rotate_lanes<Avx512Lanes, Ops>(block, size);
}

}  // namespace millrace
