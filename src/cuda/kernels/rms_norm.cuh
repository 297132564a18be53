// What the kernels that norm rows share: the order of rms_norm.h's sums, and what a thread does
// with its columns.
#pragma once

#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/operand_tiles.h"
#include "cuda/kernels/rms_norm.h"

namespace millrace::cuda {

// Whose sums of squares these are: 256 threads', in passes over a row.
constexpr uint32_t kNormThreads = 256;
constexpr uint32_t kNormWarps = kNormThreads / kWarpThreads;
constexpr uint32_t kNormColumns = kCoreInputs;  // of a thread: neighbours in tiles too
constexpr uint32_t kNormWarpColumns = kWarpThreads * kNormColumns;
constexpr uint32_t kNormPassColumns = kNormThreads * kNormColumns;

// Columns [column, column + 8) of a row; zero beyond its end.
// kIsWhole: of rows of a multiple of eight.
template <bool kIsWhole>
__device__ inline void load_columns(
    const float* row, size_t column, size_t hidden, float (&values)[kNormColumns]
) {
#pragma unroll
  for (uint32_t i = 0; i < kNormColumns; i += 4) {
    const Words4 words = kIsWhole && column < hidden ? load_words(row + column + i) : Words4{};
#pragma unroll
    for (uint32_t j = 0; j < 4; ++j) values[i + j] = float_from_bits(words.words[j]);
  }
  if constexpr (!kIsWhole) {
#pragma unroll
    for (uint32_t i = 0; i < kNormColumns; ++i) {
      if (column + i < hidden) values[i] = row[column + i];
    }
  }
}

__device__ inline float add_squares(const float (&values)[kNormColumns], float sum) {
#pragma unroll
  for (const float value : values) sum = fused_multiply_add(value, value, sum);
  return sum;
}

__device__ inline Words4 normed_columns(
    const float (&values)[kNormColumns], const float (&weights)[kNormColumns], float factor
) {
  Words4 result;
#pragma unroll
  for (uint32_t i = 0; i < kNormColumns; i += 2) {
    result.words[i / 2] =
        bfloat16_pair(values[i] * factor * weights[i], values[i + 1] * factor * weights[i + 1]);
  }
  return result;
}

// The sum of squares that warp `warp` of kNormWarps has of a row. By a whole warp.
template <bool kIsWhole>
__device__ inline float sum_of_norm_warp(const float* row, size_t hidden, uint32_t warp) {
  float sum = 0.0F;
  const size_t first = warp * kNormWarpColumns + lane_index() * kNormColumns;
  for (size_t column = first; column < hidden; column += kNormPassColumns) {
    float values[kNormColumns];
    load_columns<kIsWhole>(row, column, hidden, values);
    sum = add_squares(values, sum);
  }
  return sum_over_warp(sum);
}

}  // namespace millrace::cuda
