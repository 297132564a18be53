#include "kernels/lanes_avx2.h"
#include "kernels/quantized/linear_quantized_lanes.h"

namespace millrace {
namespace {

struct Pair {
  __m256i lo;
  __m256i hi;
};

struct Avx2Dots {
  using Floats = Avx2Lanes;
  using Weights = Pair;
  using Inputs = __m256i;
  using Sums = Pair;
  using Table = __m256i;

  [[gnu::always_inline]] static __m256i load(const unsigned char* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  [[gnu::always_inline]] static Table load_table(const unsigned char* codes) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(codes)));
  }
  [[gnu::always_inline]] static Weights load_weights(const unsigned char* p) {
    return {load(p), load(p + 32)};
  }
  [[gnu::always_inline]] static __m256i four_bits(__m256i bytes) {
    return _mm256_and_si256(bytes, _mm256_set1_epi8(15));
  }
  [[gnu::always_inline]] static Weights low_bits(const unsigned char* p) {
    return {four_bits(load(p)), four_bits(load(p + 32))};
  }
  [[gnu::always_inline]] static Weights high_bits(const unsigned char* p) {
    return {
        four_bits(_mm256_srli_epi16(load(p), 4)), four_bits(_mm256_srli_epi16(load(p + 32), 4))};
  }
  template <size_t kFrom, size_t kBits>
  [[gnu::always_inline]] static __m256i with_high_bits(__m256i low, __m256i stored) {
    __m256i moved = stored;
    if constexpr (kFrom < 4) moved = _mm256_slli_epi16(stored, 4 - kFrom);
    if constexpr (kFrom > 4) moved = _mm256_srli_epi16(stored, kFrom - 4);
    const __m256i mask = _mm256_set1_epi8(((1 << kBits) - 1) << 4);
    return _mm256_or_si256(low, _mm256_and_si256(moved, mask));
  }
  template <size_t kFrom, size_t kBits>
  [[gnu::always_inline]] static Weights with_high_bits(Weights low, const unsigned char* p) {
    return {
        with_high_bits<kFrom, kBits>(low.lo, load(p)),
        with_high_bits<kFrom, kBits>(low.hi, load(p + 32))};
  }
  [[gnu::always_inline]] static Weights low_codes(const unsigned char* p, Table table) {
    const Weights bits = low_bits(p);
    return {_mm256_shuffle_epi8(table, bits.lo), _mm256_shuffle_epi8(table, bits.hi)};
  }
  [[gnu::always_inline]] static Weights high_codes(const unsigned char* p, Table table) {
    const Weights bits = high_bits(p);
    return {_mm256_shuffle_epi8(table, bits.lo), _mm256_shuffle_epi8(table, bits.hi)};
  }
  [[gnu::always_inline]] static Inputs broadcast_inputs(const unsigned char* p) {
    int four;
    __builtin_memcpy(&four, p, sizeof four);
    return _mm256_set1_epi32(four);
  }
  [[gnu::always_inline]] static Sums broadcast_sum(int sum) {
    return {_mm256_set1_epi32(sum), _mm256_set1_epi32(sum)};
  }
  // The products of bytes exceed 16 bits where two are added (vpmaddubsw saturates), so that even
  // and odd bytes are widened first.
  [[gnu::always_inline]] static __m256i dot_eight(__m256i weights, __m256i inputs, __m256i sums) {
    const __m256i even = _mm256_and_si256(weights, _mm256_set1_epi16(0xFF));
    const __m256i odd = _mm256_srli_epi16(weights, 8);
    const __m256i even_inputs = _mm256_srai_epi16(_mm256_slli_epi16(inputs, 8), 8);
    const __m256i odd_inputs = _mm256_srai_epi16(inputs, 8);
    const __m256i products = _mm256_madd_epi16(even, even_inputs);
    return _mm256_add_epi32(_mm256_add_epi32(sums, products), _mm256_madd_epi16(odd, odd_inputs));
  }
  [[gnu::always_inline]] static Sums dot(Weights weights, Inputs inputs, Sums sums) {
    return {dot_eight(weights.lo, inputs, sums.lo), dot_eight(weights.hi, inputs, sums.hi)};
  }
  // Two products of codes are within 16 bits.
  [[gnu::always_inline]] static __m256i dot_eight_codes(
      __m256i weights, __m256i inputs, __m256i sums
  ) {
    const __m256i pairs = _mm256_maddubs_epi16(weights, inputs);
    return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  [[gnu::always_inline]] static Sums dot_codes(Weights weights, Inputs inputs, Sums sums) {
    return {
        dot_eight_codes(weights.lo, inputs, sums.lo), dot_eight_codes(weights.hi, inputs, sums.hi)};
  }
  [[gnu::always_inline]] static Sums add(Sums a, Sums b) {
    return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
  }
  [[gnu::always_inline]] static Floats as_floats(Sums a) {
    return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
  }
  [[gnu::always_inline]] static __m256 total_of_eight(__m256i high, __m256i low) {
    return _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_slli_epi32(high, 8), low));
  }
  [[gnu::always_inline]] static Floats total(Sums high, Sums low) {
    return {total_of_eight(high.lo, low.lo), total_of_eight(high.hi, low.hi)};
  }
  [[gnu::always_inline]] static Floats load_scales(const unsigned char* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {
        _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
        _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
  }
};

// 16 registers, two to a panel: 2 x 2 sums of a group take 8, widened weights 4, inputs 2. The sums
// of all groups lie on the stack.
struct TileShape {
  static constexpr size_t tokens_for(size_t num_panels) { return num_panels == 1 ? 4 : 2; }
  static constexpr size_t kFewTerms = 8;
};

}  // namespace

template <class Weights>
void linear_quantized_avx2(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  linear_quantized_lanes<Avx2Dots, TileShape>(Weights{}, task, panel_begin, panel_end);
}

template void linear_quantized_avx2<Int8Weights>(const QuantizedTask&, size_t, size_t);
template void linear_quantized_avx2<Int4Weights>(const QuantizedTask&, size_t, size_t);
MILLRACE_INSTANTIATE_CODES(linear_quantized_avx2)

}  // namespace millrace
