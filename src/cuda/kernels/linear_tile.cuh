// What linear.cu and linear_quantized.cu share: how a block's product is cut, and how the warps
// that share its inputs bring their sums together.
#pragma once

#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/linear.h"

namespace millrace::cuda {

constexpr uint32_t kTileRows = 16;    // of weights: the rows of a product
constexpr uint32_t kTileTokens = 8;   // its columns
constexpr uint32_t kStepInputs = 32;  // of two products
constexpr uint32_t kTileElements = kTileRows * kTileTokens;
constexpr uint32_t kWarpsMax = 8;
constexpr uint32_t kThreadsMax = kWarpsMax * kWarpThreads;
constexpr uint32_t kTokenTilesMax = 4;  // that share what is loaded of the weights

// To [row tile][token tile][token][row], so that neighbours in memory are neighbours in out.
template <uint32_t kRowTiles, uint32_t kTokenTiles>
__device__ inline void store_sums(const float (&sums)[kRowTiles][kTokenTiles][4], float* shared) {
  const uint32_t group = lane_index() / 4;
  const uint32_t pair = lane_index() % 4 * 2;
  for (uint32_t row_tile = 0; row_tile < kRowTiles; ++row_tile) {
    for (uint32_t token_tile = 0; token_tile < kTokenTiles; ++token_tile) {
      float* const tile = shared + (row_tile * kTokenTiles + token_tile) * kTileElements;
      for (uint32_t i = 0; i < 4; ++i) {
        tile[(pair + i % 2) * kTileRows + group + i / 2 * 8] = sums[row_tile][token_tile][i];
      }
    }
  }
}

// `stride`: elements of a warp.
__device__ inline float sum_of_warps(const float* shared, uint32_t stride) {
  float sum = shared[0];
  for (uint32_t warp = 1; warp < num_warps(); ++warp) sum += shared[warp * stride];
  return sum;
}

__device__ inline float with_bias(float sum, const float* bias, size_t row) {
  return bias == nullptr ? sum : sum + bias[row];
}

// kStore or kAddToOut.
__device__ inline void store_output(LinearEpilogue epilogue, float sum, float& out) {
  out = epilogue == LinearEpilogue::kAddToOut ? out + sum : sum;
}

}  // namespace millrace::cuda
