#include "kernels/quantized/dots_avx512.h"
#include "kernels/quantized/linear_quantized_lanes.h"

namespace millrace {
namespace {

// The products of bytes exceed 16 bits where two are added (vpmaddubsw saturates), so that even and
// odd bytes are widened first; the compiler keeps the widened weights for all tokens of a tile.
struct WideningDots : Avx512DotsBase {
  [[gnu::always_inline]] static Sums dot(Weights weights, Inputs inputs, Sums sums) {
    const __m512i even = _mm512_and_si512(weights, _mm512_set1_epi16(0xFF));
    const __m512i odd = _mm512_srli_epi16(weights, 8);
    const __m512i even_inputs = _mm512_srai_epi16(_mm512_slli_epi16(inputs, 8), 8);
    const __m512i odd_inputs = _mm512_srai_epi16(inputs, 8);
    const __m512i products = _mm512_madd_epi16(even, even_inputs);
    return _mm512_add_epi32(_mm512_add_epi32(sums, products), _mm512_madd_epi16(odd, odd_inputs));
  }
  // Two of these products are within 16 bits.
  [[gnu::always_inline]] static Sums dot_codes(Weights weights, Inputs inputs, Sums sums) {
    const __m512i pairs = _mm512_maddubs_epi16(weights, inputs);
    return _mm512_add_epi32(sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
};

// 32 registers: twice 2 x 4 sums, 2 x 2 of widened weights, 2 of inputs.
struct TileShape {
  static constexpr size_t tokens_for(size_t num_panels) { return num_panels == 1 ? 8 : 4; }
  static constexpr size_t kFewTerms = 8;
};

}  // namespace

template <class Weights>
void linear_quantized_avx512(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  linear_quantized_lanes<WideningDots, TileShape>(Weights{}, task, panel_begin, panel_end);
}

template void linear_quantized_avx512<Int8Weights>(const QuantizedTask&, size_t, size_t);
template void linear_quantized_avx512<Int4Weights>(const QuantizedTask&, size_t, size_t);
MILLRACE_INSTANTIATE_CODES(linear_quantized_avx512)

}  // namespace millrace
