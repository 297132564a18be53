// Reading packed_bfloat16.h with AVX2. See lanes.h for the rules of this file.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/packed_bfloat16_layout.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

// The table's low and high bytes, each in both halves of a register.
struct ExponentBytes {
  __m256i low;
  __m256i high;
};

inline ExponentBytes read_exponents(const uint8_t* panel) {
  alignas(32) uint8_t low[32];
  alignas(32) uint8_t high[32];
  for (size_t i = 0; i < 32; ++i) {
    low[i] = panel[2 * (i % 16)];
    high[i] = panel[2 * (i % 16) + 1];
  }
  return {
      _mm256_load_si256(reinterpret_cast<const __m256i*>(low)),
      _mm256_load_si256(reinterpret_cast<const __m256i*>(high))};
}

// Eight rows of a pair. `numbers`: in the lowest four bits of each of 16.
[[gnu::always_inline]] inline __m256i unpack_half(
    const ExponentBytes& table, __m256i numbers, const uint8_t* rests
) {
  const __m256i sign_and_mantissa = _mm256_set1_epi16(static_cast<short>(0x807F));
  const __m256i rest =
      _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(rests)));
  // A shuffle gives zero for an index with its top bit set.
  const __m256i unused = _mm256_set1_epi16(static_cast<short>(0x8000));
  const __m256i indices = _mm256_and_si256(numbers, _mm256_set1_epi16(0x000F));
  const __m256i low = _mm256_shuffle_epi8(table.low, _mm256_or_si256(indices, unused));
  const __m256i high =
      _mm256_slli_epi16(_mm256_shuffle_epi8(table.high, _mm256_or_si256(indices, unused)), 8);
  return _mm256_or_si256(_mm256_and_si256(rest, sign_and_mantissa), _mm256_or_si256(low, high));
}

// A panel as pairs of inputs: [num_blocks * 4][16][2].
inline void unpack_panel(const uint8_t* panel, size_t num_blocks, BFloat16* out) {
  const ExponentBytes table = read_exponents(panel);
  const uint8_t* block = panel + kPackedTableBytes;
  for (size_t i = 0; i < num_blocks; ++i, block += kPackedBlockBytes) {
    for (size_t half = 0; half < 2; ++half) {
      const void* from = block + half * 32;
      __m256i codes = _mm256_loadu_si256(static_cast<const __m256i*>(from));
      for (size_t pair = 0; pair < kPackedBlockPairs; ++pair) {
        const uint8_t* rests = block + kPackedCodeBytes + pair * kPackedPairBytes + half * 16;
        void* to = out + pair * 32 + half * 16;
        _mm256_storeu_si256(static_cast<__m256i*>(to), unpack_half(table, codes, rests));
        codes = _mm256_srli_epi16(codes, 4);
      }
    }
    out += 128;
  }
}

}  // namespace
}  // namespace millrace
