// Reading packed_bfloat16.h with AVX-512. See lanes.h for the rules of this file.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/lanes_avx512.h"
#include "kernels/packed_bfloat16_layout.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

// Pair kPair of a block: 16 rows, of each its two inputs, as bfloat16. `table`: the panel's
// exponents; `codes` and `rests`: the block's.
template <int kPair>
[[gnu::always_inline]] inline __m512i unpack_pair(
    __m512i table, __m512i codes, const uint8_t* rests
) {
  const __m512i sign_and_mantissa = _mm512_set1_epi16(static_cast<short>(0x807F));
  const void* from = rests + kPair * kPackedPairBytes;
  const __m512i rest = _mm512_cvtepi8_epi16(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
  // The table stands there twice because the permutation reads five bits of each number.
  const __m512i numbers = kPair == 0 ? codes : _mm512_srli_epi16(codes, 4 * kPair);
  const __m512i exponents = _mm512_permutexvar_epi16(numbers, table);
  return _mm512_ternarylogic_epi32(rest, sign_and_mantissa, exponents, 0xEA);  // (a & b) | c
}

// A block as pairs of inputs: [4][16][2]. `table`: the panel's exponents.
[[gnu::always_inline]] inline void unpack_block(
    __m512i table, const uint8_t* block, BFloat16* out
) {
  const __m512i codes = _mm512_loadu_si512(block);
  const uint8_t* rests = block + kPackedCodeBytes;
  _mm512_storeu_si512(out, unpack_pair<0>(table, codes, rests));
  _mm512_storeu_si512(out + 32, unpack_pair<1>(table, codes, rests));
  _mm512_storeu_si512(out + 64, unpack_pair<2>(table, codes, rests));
  _mm512_storeu_si512(out + 96, unpack_pair<3>(table, codes, rests));
}

// The two inputs of a pair's rows as floats, the odd one first: [2][16].
[[gnu::always_inline]] inline void store_widened(__m512i pair, float* out) {
  Avx512Lanes::store(out, Avx512Lanes::widen_odd(pair));
  Avx512Lanes::store(out + 16, Avx512Lanes::widen_even(pair));
}

// Panels as floats, for linear_unpacked().
struct UnpackedRows {
  // Blocks of a panel, from `first` on: of each pair its odd input, then the even one. `out`:
  // [num_blocks * 8][16].
  static void unpack(const uint8_t* panel, size_t first, size_t num_blocks, float* out) {
    const __m512i table = _mm512_loadu_si512(panel);
    const uint8_t* block = panel + kPackedTableBytes + first * kPackedBlockBytes;
    for (size_t i = 0; i < num_blocks; ++i, block += kPackedBlockBytes, out += 128) {
      const __m512i codes = _mm512_loadu_si512(block);
      const uint8_t* rests = block + kPackedCodeBytes;
      store_widened(unpack_pair<0>(table, codes, rests), out);
      store_widened(unpack_pair<1>(table, codes, rests), out + 32);
      store_widened(unpack_pair<2>(table, codes, rests), out + 64);
      store_widened(unpack_pair<3>(table, codes, rests), out + 96);
    }
  }
  static void put_in_row_order(float* /*sums*/, size_t /*num_sums*/) {}
};

}  // namespace
}  // namespace millrace
