// Reading packed_bfloat16.h with AVX2. See lanes.h for the rules of this file.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/lanes_avx2.h"
#include "kernels/linear_kernel.h"
#include "kernels/packed_bfloat16_hints.h"
#include "kernels/packed_bfloat16_layout.h"

namespace millrace {
namespace {

// The bytes of 32 words, of two registers: in each half of a register those of the one's half, then
// those of the other's.
struct WordBytes {
  __m256i low;
  __m256i high;
};

[[gnu::always_inline]] inline WordBytes bytes_of(__m256i a, __m256i b) {
  const __m256i mask = _mm256_set1_epi16(0x00FF);
  return {
      _mm256_packus_epi16(_mm256_and_si256(a, mask), _mm256_and_si256(b, mask)),
      _mm256_packus_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8))};
}

// The panel's table, each half of a register the whole of it.
[[gnu::always_inline]] inline WordBytes read_exponents(const uint8_t* panel) {
  const auto* const halves = reinterpret_cast<const __m128i*>(panel);
  return bytes_of(
      _mm256_broadcastsi128_si256(_mm_loadu_si128(halves)),
      _mm256_broadcastsi128_si256(_mm_loadu_si128(halves + 1))
  );
}

// A block's numbers: in the low bytes of pairs 0 (the lower four bits) and 1, in the high ones of
// pairs 2 and 3; rows 0 to 7, then 8 to 15, of each its two inputs.
[[gnu::always_inline]] inline WordBytes read_numbers(const uint8_t* block) {
  const auto* const quarters = reinterpret_cast<const __m128i*>(block);
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15)
  );
  const __m256i a = _mm256_shuffle_epi8(_mm256_loadu2_m128i(quarters + 2, quarters), order);
  const __m256i b = _mm256_shuffle_epi8(_mm256_loadu2_m128i(quarters + 3, quarters + 1), order);
  return {_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)};
}

// A pair's two inputs of sixteen rows: rows 0 to 3 and 8 to 11, then 4 to 7 and 12 to 15, as
// unpacking within halves of registers leaves them.
struct PairWeights {
  Avx2Lanes odd;
  Avx2Lanes even;
};

// Of rows as PairWeights has them.
[[gnu::always_inline]] inline Avx2Lanes in_row_order(Avx2Lanes a) {
  return {
      _mm256_insertf128_ps(a.lo, _mm256_castps256_ps128(a.hi), 1),
      _mm256_permute2f128_ps(a.lo, a.hi, 0x31)};
}

// `block`: of which `numbers` are.
[[gnu::always_inline]] inline PairWeights unpack_pair(
    const WordBytes& table, const WordBytes& numbers, const uint8_t* block, size_t pair
) {
  const __m256i four_bits = _mm256_set1_epi8(0x0F);
  const __m256i sign = _mm256_set1_epi8(static_cast<char>(0x80));
  const __m256i of_two = pair < 2 ? numbers.low : numbers.high;
  const __m256i indices =
      _mm256_and_si256(pair % 2 == 0 ? of_two : _mm256_srli_epi16(of_two, 4), four_bits);
  const uint8_t* const rests = block + kPackedCodeBytes + pair * kPackedPairBytes;
  const __m256i rest = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rests));
  const __m256i low =
      _mm256_or_si256(_mm256_andnot_si256(sign, rest), _mm256_shuffle_epi8(table.low, indices));
  const __m256i high =
      _mm256_or_si256(_mm256_and_si256(sign, rest), _mm256_shuffle_epi8(table.high, indices));
  const __m256i first_rows = _mm256_unpacklo_epi8(low, high);
  const __m256i last_rows = _mm256_unpackhi_epi8(low, high);
  return {
      Avx2Lanes::widen_odd(first_rows, last_rows), Avx2Lanes::widen_even(first_rows, last_rows)};
}

// The first `num_pairs` pairs of a block's inputs are multiplied by those of a few tokens, `x`: a
// multiply-add for each input, the odd one of a pair first. `tables`: of the panels, whose blocks
// lie panel_bytes apart.
template <size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void multiply_block(
    const WordBytes (&tables)[kPanels],
    const uint8_t* block,
    size_t panel_bytes,
    const float* x,
    size_t x_stride,
    size_t num_pairs,
    Avx2Lanes (&sums)[kPanels][kTokens]
) {
  WordBytes numbers[kPanels];
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
#pragma GCC unroll 4
      for (size_t token = 0; token < kTokens; ++token) {
        const float* const of_pair = x + token * x_stride + 2 * pair;
        Avx2Lanes& sum = sums[panel][token];
        Avx2Lanes::add_product(weights.odd, Avx2Lanes::broadcast(of_pair[1]), sum);
        Avx2Lanes::add_product(weights.even, Avx2Lanes::broadcast(of_pair[0]), sum);
      }
    }
  }
}

// Panels of a matrix, from `panels` on, times the first kTokens tokens. `out`:
// [kPanels][kTokens][16].
template <size_t kPanels, size_t kTokens>
inline void multiply_panels(const LinearTask& task, const uint8_t* panels, float* out) {
  const size_t panel_bytes = task.panel_size;
  WordBytes tables[kPanels];
  for (size_t i = 0; i < kPanels; ++i) tables[i] = read_exponents(panels + i * panel_bytes);
  const uint8_t* block = panels + kPackedTableBytes;
  const auto* x = static_cast<const float*>(task.x);
  Avx2Lanes sums[kPanels][kTokens];
  for (auto& of_panel : sums) {
    for (Avx2Lanes& sum : of_panel) sum = Avx2Lanes::zero();
  }
  const size_t num_whole = task.num_inputs / kPackedBlockColumns;
  for (size_t i = 0; i < num_whole; ++i, block += kPackedBlockBytes, x += kPackedBlockColumns) {
    for (size_t panel = 0; task.hint_bytes > 0 && panel < kPanels; ++panel) {
      ask_for_block<3>(block + panel * panel_bytes + task.hint_bytes);
    }
    multiply_block(tables, block, panel_bytes, x, task.x_stride, kPackedBlockPairs, sums);
  }
  const size_t num_left = task.num_inputs % kPackedBlockColumns;
  if (num_left > 0) {
    multiply_block(tables, block, panel_bytes, x, task.x_stride, (num_left + 1) / 2, sums);
  }
  for (const auto& of_panel : sums) {
    for (const Avx2Lanes& sum : of_panel) {
      Avx2Lanes::store(out, in_row_order(sum));
      out += kLanes;
    }
  }
}

// Panels as floats, for linear_unpacked().
struct UnpackedRows {
  // Blocks of a panel, from `first` on: of each pair its odd input, then the even one, of rows as
  // PairWeights has them. `out`: [num_blocks * 8][16].
  static void unpack(const uint8_t* panel, size_t first, size_t num_blocks, float* out) {
    const WordBytes table = read_exponents(panel);
    const uint8_t* block = panel + kPackedTableBytes + first * kPackedBlockBytes;
    for (size_t i = 0; i < num_blocks; ++i, block += kPackedBlockBytes) {
      const WordBytes numbers = read_numbers(block);
#pragma GCC unroll 4
      for (size_t pair = 0; pair < kPackedBlockPairs; ++pair, out += 2 * kLanes) {
        const PairWeights weights = unpack_pair(table, numbers, block, pair);
        Avx2Lanes::store(out, weights.odd);
        Avx2Lanes::store(out + kLanes, weights.even);
      }
    }
  }
  // `sums`: [num_sums][16], of such rows.
  static void put_in_row_order(float* sums, size_t num_sums) {
    for (size_t i = 0; i < num_sums; ++i, sums += kLanes) {
      Avx2Lanes::store(sums, in_row_order(Avx2Lanes::load(sums)));
    }
  }
};

}  // namespace
}  // namespace millrace
