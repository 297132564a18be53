// A head of q, k or v as write_kv.h has it normalized, rotated and rounded; see there for the
// arithmetic. All functions here are called by a whole warp.
#pragma once

#include <type_traits>

#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/kv_blocks.h"

namespace millrace::cuda {

// Lane i has dimensions i, i + 32, ... of the head's lower half, and their partners; zeros beyond.
// Of a norm's weights likewise, and of a position's angles: cosines, then sines.
// kPairs: that a lane has room for, of heads of up to 64 * kPairs dimensions.
template <uint32_t kPairs>
struct HeadPairs {
  float first[kPairs];
  float second[kPairs];
};

// Calls body(std::integral_constant) with the kPairs that heads need.
template <class Body>
void with_lane_pairs(size_t head_dim, const Body& body) {
  static_assert(kHeadDimMax == 4 * 2 * kWarpThreads);
  if (head_dim <= 2 * kWarpThreads) return body(std::integral_constant<uint32_t, 1>());
  if (head_dim <= 4 * kWarpThreads) return body(std::integral_constant<uint32_t, 2>());
  body(std::integral_constant<uint32_t, 4>());
}

template <uint32_t kPairs>
__device__ void load_head(const float* head, uint32_t half, HeadPairs<kPairs>& pairs) {
#pragma unroll
  for (uint32_t i = 0; i < kPairs; ++i) {
    const uint32_t dimension = i * kWarpThreads + lane_index();
    const bool is_there = dimension < half;
    pairs.first[i] = is_there ? head[dimension] : 0.0F;
    pairs.second[i] = is_there ? head[half + dimension] : 0.0F;
  }
}

// Of the lane's share of a head: dimensions i, i + 32, ... `pairs`: the head, as it was loaded.
template <uint32_t kPairs>
__device__ float sum_of_squares(const float* head, uint32_t half, const HeadPairs<kPairs>& pairs) {
  float sum = 0.0F;
  if (half % kWarpThreads != 0) {
    for (uint32_t i = lane_index(); i < 2 * half; i += kWarpThreads) {
      sum = fused_multiply_add(head[i], head[i], sum);
    }
    return sum;
  }
  // The lane has them already; zeros change nothing.
#pragma unroll
  for (const float value : pairs.first) sum = fused_multiply_add(value, value, sum);
#pragma unroll
  for (const float value : pairs.second) sum = fused_multiply_add(value, value, sum);
  return sum;
}

template <uint32_t kPairs>
__device__ void normalize_head(
    float factor, const HeadPairs<kPairs>& weights, HeadPairs<kPairs>& pairs
) {
#pragma unroll
  for (uint32_t i = 0; i < kPairs; ++i) {
    pairs.first[i] = pairs.first[i] * factor * weights.first[i];
    pairs.second[i] = pairs.second[i] * factor * weights.second[i];
  }
}

template <uint32_t kPairs>
__device__ void rotate_head(const HeadPairs<kPairs>& angles, HeadPairs<kPairs>& pairs) {
#pragma unroll
  for (uint32_t i = 0; i < kPairs; ++i) {
    const float cosine = angles.first[i];
    const float sine = angles.second[i];
    const float first = pairs.first[i];
    const float second = pairs.second[i];
    pairs.first[i] = fused_multiply_add(first, cosine, -(second * sine));
    pairs.second[i] = fused_multiply_add(second, cosine, first * sine);
  }
}

template <uint32_t kPairs>
__device__ void store_head(
    const HeadPairs<kPairs>& pairs, float scale, uint32_t half, BFloat16Bits* out
) {
#pragma unroll
  for (uint32_t i = 0; i < kPairs; ++i) {
    const uint32_t dimension = i * kWarpThreads + lane_index();
    if (dimension >= half) continue;
    out[dimension] = bfloat16_from_float(pairs.first[i] * scale);
    out[half + dimension] = bfloat16_from_float(pairs.second[i] * scale);
  }
}

// Where a token's key or value of a KV head lies, counted from the first block's.
__device__ inline size_t row_in_cache(const KvBlocks& cache, uint32_t slot, size_t kv_head) {
  const auto block_size = static_cast<uint32_t>(cache.block_size);
  const size_t block = slot / block_size;
  const size_t offset = slot % block_size;
  return ((block * cache.num_kv_heads + kv_head) * cache.block_size + offset) * cache.head_dim;
}

}  // namespace millrace::cuda
