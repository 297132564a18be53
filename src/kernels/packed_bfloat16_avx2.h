// Reading packed_bfloat16.h with AVX2. See lanes.h for the rules of this file.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/lanes_avx2.h"
#include "kernels/packed_bfloat16_layout.h"

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

// A block's numbers, in bytes: the lower four bits of pair 0 or 2, the upper ones of 1 or 3. Rows 0
// to 3, 8 to 11, 4 to 7, 12 to 15, of each its two inputs.
struct BlockNumbers {
  __m256i of_pairs_0_1;
  __m256i of_pairs_2_3;
};

[[gnu::always_inline]] inline BlockNumbers read_numbers(const uint8_t* block) {
  const __m256i a = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block));
  const __m256i b = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(block + 32));
  const __m256i mask = _mm256_set1_epi16(0x00FF);
  return {
      _mm256_packus_epi16(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask)),
      _mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8))};
}

// A pair's inputs of eight rows each, as bfloat16: rows 0 to 7, 8 to 15.
struct PairWeights {
  __m256i halves[2];
};

// `block`: of which `numbers` are.
[[gnu::always_inline]] inline PairWeights unpack_pair(
    const ExponentBytes& table, const BlockNumbers& numbers, const uint8_t* block, size_t pair
) {
  const __m256i four_bits = _mm256_set1_epi8(0x0F);
  const __m256i sign = _mm256_set1_epi8(static_cast<char>(0x80));
  const __m256i of_two = pair < 2 ? numbers.of_pairs_0_1 : numbers.of_pairs_2_3;
  const __m256i indices =
      _mm256_and_si256(pair % 2 == 0 ? of_two : _mm256_srli_epi16(of_two, 4), four_bits);
  const uint8_t* const rests = block + kPackedCodeBytes + pair * kPackedPairBytes;
  const __m256i rest = _mm256_permute4x64_epi64(
      _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rests)), 0b11'01'10'00
  );
  const __m256i low =
      _mm256_or_si256(_mm256_andnot_si256(sign, rest), _mm256_shuffle_epi8(table.low, indices));
  const __m256i high =
      _mm256_or_si256(_mm256_and_si256(sign, rest), _mm256_shuffle_epi8(table.high, indices));
  return {{_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)}};
}

// The odd or the even inputs of a half.
[[gnu::always_inline]] inline __m256 widen_odd(__m256i pairs) {
  const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
  return _mm256_castsi256_ps(_mm256_and_si256(pairs, upper));
}
[[gnu::always_inline]] inline __m256 widen_even(__m256i pairs) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}

// The first `num_pairs` pairs of a block's inputs are multiplied by those of a few tokens, `x`: a
// multiply-add for each input, the odd one of a pair first. `tables`: of the panels, whose blocks
// lie panel_bytes apart.
template <size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void multiply_block(
    const ExponentBytes (&tables)[kPanels],
    const uint8_t* block,
    size_t panel_bytes,
    const float* x,
    size_t x_stride,
    size_t num_pairs,
    Avx2Lanes (&sums)[kPanels][kTokens]
) {
  BlockNumbers numbers[kPanels];
#pragma GCC unroll 4
  for (size_t panel = 0; panel < kPanels; ++panel) {
    numbers[panel] = read_numbers(block + panel * panel_bytes);
  }
#pragma GCC unroll 4
  for (size_t pair = 0; pair < kPackedBlockPairs; ++pair) {
    if (pair == num_pairs) break;
#pragma GCC unroll 4
    for (size_t panel = 0; panel < kPanels; ++panel) {
      const PairWeights weights =
          unpack_pair(tables[panel], numbers[panel], block + panel * panel_bytes, pair);
      const Avx2Lanes odd = {widen_odd(weights.halves[0]), widen_odd(weights.halves[1])};
      const Avx2Lanes even = {widen_even(weights.halves[0]), widen_even(weights.halves[1])};
#pragma GCC unroll 4
      for (size_t token = 0; token < kTokens; ++token) {
        const float* const of_pair = x + token * x_stride + 2 * pair;
        Avx2Lanes& sum = sums[panel][token];
        Avx2Lanes::add_product(odd, Avx2Lanes::broadcast(of_pair[1]), sum);
        Avx2Lanes::add_product(even, Avx2Lanes::broadcast(of_pair[0]), sum);
      }
    }
  }
}

// The processor alone fetches too late what several tokens take their time for: 10.4 cycles for
// sixteen weights and four tokens, which take 7.7 in the first cache, and 7.6 with this (Zen 3).
constexpr size_t kBytesAhead = 1536;

[[gnu::always_inline]] inline void ask_for_block(const uint8_t* block) {
  for (size_t line = 0; line < kPackedBlockBytes; line += 64) {
    __builtin_prefetch(block + line, 0, 3);
  }
}

// Panels' rows times a few tokens. `out`: [kPanels][kTokens][16].
template <size_t kPanels, size_t kTokens>
inline void multiply_panels(
    const uint8_t* panels,
    size_t panel_bytes,
    const float* x,
    size_t x_stride,
    size_t num_inputs,
    float* out
) {
  ExponentBytes tables[kPanels];
  for (size_t i = 0; i < kPanels; ++i) tables[i] = read_exponents(panels + i * panel_bytes);
  const uint8_t* block = panels + kPackedTableBytes;
  Avx2Lanes sums[kPanels][kTokens];
  for (auto& of_panel : sums) {
    for (Avx2Lanes& sum : of_panel) sum = Avx2Lanes::zero();
  }
  const size_t num_whole = num_inputs / kPackedBlockColumns;
  for (size_t i = 0; i < num_whole; ++i, block += kPackedBlockBytes, x += kPackedBlockColumns) {
    for (size_t panel = 0; panel < kPanels; ++panel) {
      ask_for_block(block + panel * panel_bytes + kBytesAhead);
    }
    multiply_block(tables, block, panel_bytes, x, x_stride, kPackedBlockPairs, sums);
  }
  const size_t num_left = num_inputs % kPackedBlockColumns;
  if (num_left > 0) {
    multiply_block(tables, block, panel_bytes, x, x_stride, (num_left + 1) / 2, sums);
  }
  for (const auto& of_panel : sums) {
    for (const Avx2Lanes& sum : of_panel) {
      Avx2Lanes::store(out, sum);
      out += kLanes;
    }
  }
}

// Blocks of a panel, from `first` on, as floats: of each pair its odd input, then the even one,
// [num_blocks * 8][16].
inline void unpack_blocks(const uint8_t* panel, size_t first, size_t num_blocks, float* out) {
  const ExponentBytes table = read_exponents(panel);
  const uint8_t* block = panel + kPackedTableBytes + first * kPackedBlockBytes;
  for (size_t i = 0; i < num_blocks; ++i, block += kPackedBlockBytes) {
    const BlockNumbers numbers = read_numbers(block);
#pragma GCC unroll 4
    for (size_t pair = 0; pair < kPackedBlockPairs; ++pair, out += 32) {
      const PairWeights weights = unpack_pair(table, numbers, block, pair);
      _mm256_storeu_ps(out, widen_odd(weights.halves[0]));
      _mm256_storeu_ps(out + 8, widen_odd(weights.halves[1]));
      _mm256_storeu_ps(out + 16, widen_even(weights.halves[0]));
      _mm256_storeu_ps(out + 24, widen_even(weights.halves[1]));
    }
  }
}

}  // namespace
}  // namespace millrace
