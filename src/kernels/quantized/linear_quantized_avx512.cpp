#include <type_traits>

#include "kernels/quantized/dots_avx512.h"
#include "kernels/quantized/linear_quantized_lanes.h"

namespace millrace {
namespace {

// Even and odd bytes become words: products of bytes would exceed 16 bits where two are added
// (vpmaddubsw saturates), and one of words takes inputs of 16 bits at once.
struct WordDots : Avx512DotsBase {
  static constexpr bool kUnpacks = true;
  static constexpr size_t kUnpackedBytes = 128;
  static constexpr size_t kInputsAtOnce = 4;

  struct Weights {
    __m512i even;
    __m512i odd;
  };
  using Inputs = Weights;
  static constexpr size_t kInputBytes = 2;
  static constexpr size_t kFewSums = 1;

  [[gnu::always_inline]] static Weights weights_of(Bytes bytes) {
    return {_mm512_and_si512(bytes, _mm512_set1_epi16(0xFF)), _mm512_srli_epi16(bytes, 8)};
  }
  [[gnu::always_inline]] static void store_weights(unsigned char* p, Weights weights) {
    _mm512_storeu_si512(p, weights.even);
    _mm512_storeu_si512(p + 64, weights.odd);
  }
  [[gnu::always_inline]] static Weights load_weights(const unsigned char* p) {
    return {_mm512_loadu_si512(p), _mm512_loadu_si512(p + 64)};
  }
  [[gnu::always_inline]] static Inputs broadcast_inputs(const unsigned char* p) {
    return {broadcast_32_bits(p), broadcast_32_bits(p + 4)};
  }
  [[gnu::always_inline]] static Sums dot(Weights weights, Inputs inputs, Sums sums) {
    const Sums even = _mm512_add_epi32(sums, _mm512_madd_epi16(weights.even, inputs.even));
    Sums all = _mm512_add_epi32(even, _mm512_madd_epi16(weights.odd, inputs.odd));
    // Else the compiler adds in another order, products first, and keeps these in memory.
    asm("" : "+v"(all));
    return all;
  }
};

// Weights of six bits and inputs of 8: four products fit 16 bits.
struct ByteDots : Avx512ByteDotsBase {
  static constexpr bool kUnpacks = true;
  static constexpr size_t kInputsAtOnce = 8;

  [[gnu::always_inline]] static Sums dot(Weights a, Inputs x, Weights b, Inputs y, Sums sums) {
    const __m512i words = _mm512_add_epi16(_mm512_maddubs_epi16(a, x), _mm512_maddubs_epi16(b, y));
    Sums all = _mm512_add_epi32(sums, _mm512_madd_epi16(words, _mm512_set1_epi16(1)));
    // Else the compiler adds in another order, products first, and keeps these in memory.
    asm("" : "+v"(all));
    return all;
  }
};

// As few as with AVX2: units that multiply and add are what tiles wait for, not loads of weights,
// and each size more is compiled for every format.
struct TileShape {
  static constexpr size_t tokens_for(size_t) { return 4; }
};

}  // namespace

template <class Weights>
void linear_quantized_avx512(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  using Dots = std::conditional_t<kAreOfSixBits<Weights>, ByteDots, WordDots>;
  linear_quantized_lanes<Dots, TileShape>(Weights{}, task, panel_begin, panel_end);
}

template void linear_quantized_avx512<Int8Weights>(const QuantizedTask&, size_t, size_t);
template void linear_quantized_avx512<Int4Weights>(const QuantizedTask&, size_t, size_t);
template void linear_quantized_avx512<Int6Weights>(const QuantizedTask&, size_t, size_t);
MILLRACE_INSTANTIATE_CODES(linear_quantized_avx512)

}  // namespace millrace
