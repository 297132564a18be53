// What linear_quantized_lanes.h asks of one AVX-512 register, except weights and inputs as they are
// multiplied. See lanes.h for the rules of this file.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "kernels/lanes_avx512.h"
#include "kernels/quantized/linear_quantized_kernel.h"

namespace millrace {
namespace {

struct Avx512DotsBase {
  using Floats = Avx512Lanes;
  using Bytes = __m512i;
  using Sums = __m512i;
  using Table = __m512i;

  [[gnu::always_inline]] static Table load_table(const unsigned char* codes) {
    const __m128i bytes = _mm_load_si128(reinterpret_cast<const __m128i*>(codes));
    return _mm512_broadcast_i32x4(bytes);
  }
  [[gnu::always_inline]] static Bytes load_bytes(const unsigned char* p) {
    return _mm512_loadu_si512(p);
  }
  [[gnu::always_inline]] static Bytes low_bits(const unsigned char* p) {
    return _mm512_and_si512(_mm512_loadu_si512(p), _mm512_set1_epi8(15));
  }
  [[gnu::always_inline]] static Bytes high_bits(const unsigned char* p) {
    return _mm512_and_si512(_mm512_srli_epi16(_mm512_loadu_si512(p), 4), _mm512_set1_epi8(15));
  }
  // low | moved & mask in one operation.
  template <size_t kFrom, size_t kBits>
  [[gnu::always_inline]] static Bytes with_high_bits(Bytes low, const unsigned char* p) {
    const __m512i stored = _mm512_loadu_si512(p);
    __m512i moved = stored;
    if constexpr (kFrom < 4) moved = _mm512_slli_epi16(stored, 4 - kFrom);
    if constexpr (kFrom > 4) moved = _mm512_srli_epi16(stored, kFrom - 4);
    const __m512i mask = _mm512_set1_epi8(((1 << kBits) - 1) << 4);
    return _mm512_ternarylogic_epi32(low, moved, mask, 0xF8);
  }
  [[gnu::always_inline]] static Bytes low_codes(const unsigned char* p, Table table) {
    return _mm512_shuffle_epi8(table, low_bits(p));
  }
  [[gnu::always_inline]] static Bytes high_codes(const unsigned char* p, Table table) {
    return _mm512_shuffle_epi8(table, high_bits(p));
  }
  // Two words, or four bytes, in each lane.
  [[gnu::always_inline]] static __m512i broadcast_32_bits(const unsigned char* p) {
    int bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return _mm512_set1_epi32(bits);
  }
  [[gnu::always_inline]] static Sums broadcast_sum(int sum) { return _mm512_set1_epi32(sum); }
  [[gnu::always_inline]] static Sums add(Sums a, Sums b) { return _mm512_add_epi32(a, b); }
  [[gnu::always_inline]] static Floats as_floats(Sums a) { return {_mm512_castsi512_ps(a)}; }
  [[gnu::always_inline]] static Sums times_256(Sums a) { return _mm512_slli_epi32(a, 8); }
  [[gnu::always_inline]] static Floats to_floats(Sums a) { return {_mm512_cvtepi32_ps(a)}; }
  [[gnu::always_inline]] static Floats load_scales(const unsigned char* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes))};
  }
};

// Where bytes are multiplied as they are.
struct Avx512ByteDotsBase : Avx512DotsBase {
  using Weights = Bytes;
  using Inputs = __m512i;
  static constexpr size_t kInputBytes = 1;
  static constexpr size_t kUnpackedBytes = 64;

  [[gnu::always_inline]] static Weights weights_of(Bytes bytes) { return bytes; }
  [[gnu::always_inline]] static void store_weights(unsigned char* p, Weights weights) {
    _mm512_storeu_si512(p, weights);
  }
  [[gnu::always_inline]] static Weights load_weights(const unsigned char* p) {
    return _mm512_loadu_si512(p);
  }
  [[gnu::always_inline]] static Inputs broadcast_inputs(const unsigned char* p) {
    return broadcast_32_bits(p);
  }
};

}  // namespace
}  // namespace millrace
