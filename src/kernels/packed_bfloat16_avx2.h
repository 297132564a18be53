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

[[gnu::always_inline]] inline ExponentBytes read_exponents(const uint8_t* panel) {
  const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(panel));
  const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(panel + 16));
  const __m128i mask = _mm_set1_epi16(0x00FF);
  const __m128i low = _mm_packus_epi16(_mm_and_si128(first, mask), _mm_and_si128(second, mask));
  const __m128i high = _mm_packus_epi16(_mm_srli_epi16(first, 8), _mm_srli_epi16(second, 8));
  return {_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high)};
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

// The sums of sixteen rows times one token.
struct PanelSums {
  __m256 halves[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
};

// The first `num_pairs` pairs of a block's inputs are multiplied by `x`: a multiply-add for each
// input, the odd one of a pair first. Blocks of several panels, panel_bytes apart, because each
// multiply-add waits for the one before. `tables`: of the panels.
template <size_t kPanels>
[[gnu::always_inline]] inline void multiply_block(
    const ExponentBytes (&tables)[kPanels],
    const uint8_t* block,
    size_t panel_bytes,
    const float* x,
    size_t num_pairs,
    PanelSums (&sums)[kPanels]
) {
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
  __m256i codes[kPanels][2];
#pragma GCC unroll 4
  for (size_t panel = 0; panel < kPanels; ++panel) {
    const uint8_t* const p = block + panel * panel_bytes;
    codes[panel][0] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    codes[panel][1] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32));
  }
#pragma GCC unroll 4
  for (size_t pair = 0; pair < kPackedBlockPairs; ++pair) {
    if (pair == num_pairs) break;
    const __m256 even_input = _mm256_broadcast_ss(x + 2 * pair);
    const __m256 odd_input = _mm256_broadcast_ss(x + 2 * pair + 1);
    const uint8_t* const of_pair = block + kPackedCodeBytes + pair * kPackedPairBytes;
#pragma GCC unroll 8
    for (size_t i = 0; i < 2 * kPanels; ++i) {
      __m256i& numbers = codes[i / 2][i % 2];
      const uint8_t* const rests = of_pair + i / 2 * panel_bytes + i % 2 * 16;
      const __m256i weights = unpack_half(tables[i / 2], numbers, rests);
      const __m256 odd = _mm256_castsi256_ps(_mm256_and_si256(weights, upper));
      const __m256 even = _mm256_castsi256_ps(_mm256_slli_epi32(weights, 16));
      __m256& sum = sums[i / 2].halves[i % 2];
      sum = _mm256_fmadd_ps(even, even_input, _mm256_fmadd_ps(odd, odd_input, sum));
      numbers = _mm256_srli_epi16(numbers, 4);
    }
  }
}

// Panels' rows times one token. `out`: [kPanels][16].
template <size_t kPanels>
inline void multiply_panels(
    const uint8_t* panels, size_t panel_bytes, const float* x, size_t num_inputs, float* out
) {
  ExponentBytes tables[kPanels];
  for (size_t i = 0; i < kPanels; ++i) tables[i] = read_exponents(panels + i * panel_bytes);
  const uint8_t* block = panels + kPackedTableBytes;
  PanelSums sums[kPanels];
  const size_t num_whole = num_inputs / kPackedBlockColumns;
  for (size_t i = 0; i < num_whole; ++i, block += kPackedBlockBytes, x += kPackedBlockColumns) {
    multiply_block(tables, block, panel_bytes, x, kPackedBlockPairs, sums);
  }
  const size_t num_left = num_inputs % kPackedBlockColumns;
  if (num_left > 0) multiply_block(tables, block, panel_bytes, x, (num_left + 1) / 2, sums);
  for (size_t i = 0; i < kPanels; ++i) {
    _mm256_storeu_ps(out + i * 16, sums[i].halves[0]);
    _mm256_storeu_ps(out + i * 16 + 8, sums[i].halves[1]);
  }
}

// The same of few panels, two at a time.
inline void multiply_one_token(
    const uint8_t* panels,
    size_t count,
    size_t panel_bytes,
    const float* x,
    size_t num_inputs,
    float* out
) {
  size_t panel = 0;
  for (; panel + 2 <= count; panel += 2) {
    const uint8_t* const two = panels + panel * panel_bytes;
    multiply_panels<2>(two, panel_bytes, x, num_inputs, out + panel * 16);
  }
  if (panel < count) {
    multiply_panels<1>(panels + panel * panel_bytes, panel_bytes, x, num_inputs, out + panel * 16);
  }
}

// Blocks of a panel, from `first` on, as pairs of inputs: [num_blocks * 4][16][2]. As many are
// asked for behind them, because the processor forgets what it fetches ahead while tokens pass by.
inline void unpack_blocks(const uint8_t* panel, size_t first, size_t num_blocks, BFloat16* out) {
  const ExponentBytes table = read_exponents(panel);
  const uint8_t* block = panel + kPackedTableBytes + first * kPackedBlockBytes;
  for (size_t i = 0; i < num_blocks; ++i, block += kPackedBlockBytes) {
    const uint8_t* const next = block + num_blocks * kPackedBlockBytes;
    for (size_t line = 0; line < kPackedBlockBytes; line += 64) {
      __builtin_prefetch(next + line, 0, 3);
    }
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
