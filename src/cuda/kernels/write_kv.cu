#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/write_kv.h"

namespace millrace::cuda {
namespace {

constexpr uint32_t kHeadsOfBlock = 4;  // a warp each
constexpr uint32_t kLanePairs = kHeadDimMax / 2 / kWarpThreads;

// Lane i has dimensions i, i + 32, ... of the head's lower half, and their partners.
struct HeadPairs {
  float first[kLanePairs];
  float second[kLanePairs];
};

__device__ void load_head(const float* head, uint32_t half, HeadPairs& pairs) {
  for (uint32_t i = 0; i < kLanePairs; ++i) {
    const uint32_t dimension = i * kWarpThreads + lane_index();
    const bool is_there = dimension < half;
    pairs.first[i] = is_there ? head[dimension] : 0.0F;
    pairs.second[i] = is_there ? head[half + dimension] : 0.0F;
  }
}

// 1 / sqrt(mean(x^2) + eps) of a head.
__device__ float norm_factor(const float* head, uint32_t head_dim, float eps) {
  float sum = 0.0F;
  for (uint32_t i = lane_index(); i < head_dim; i += kWarpThreads) {
    sum = fused_multiply_add(head[i], head[i], sum);
  }
  return 1.0F / square_root(sum_over_warp(sum) / static_cast<float>(head_dim) + eps);
}

__device__ void normalize_head(
    const float* head, const float* weight, float eps, uint32_t half, HeadPairs& pairs
) {
  const float factor = norm_factor(head, 2 * half, eps);
  for (uint32_t i = 0; i < kLanePairs; ++i) {
    const uint32_t dimension = i * kWarpThreads + lane_index();
    if (dimension >= half) continue;
    pairs.first[i] = pairs.first[i] * factor * weight[dimension];
    pairs.second[i] = pairs.second[i] * factor * weight[half + dimension];
  }
}

__device__ void rotate_head(const float* cosines, uint32_t half, HeadPairs& pairs) {
  for (uint32_t i = 0; i < kLanePairs; ++i) {
    const uint32_t dimension = i * kWarpThreads + lane_index();
    if (dimension >= half) continue;
    const float cosine = cosines[dimension];
    const float sine = cosines[half + dimension];
    const float first = pairs.first[i];
    const float second = pairs.second[i];
    pairs.first[i] = fused_multiply_add(first, cosine, -(second * sine));
    pairs.second[i] = fused_multiply_add(second, cosine, first * sine);
  }
}

__device__ void store_head(const HeadPairs& pairs, float scale, uint32_t half, BFloat16Bits* out) {
  for (uint32_t i = 0; i < kLanePairs; ++i) {
    const uint32_t dimension = i * kWarpThreads + lane_index();
    if (dimension >= half) continue;
    out[dimension] = bfloat16_from_float(pairs.first[i] * scale);
    out[half + dimension] = bfloat16_from_float(pairs.second[i] * scale);
  }
}

// Where a token's key or value of a KV head lies, counted from the first block's.
__device__ size_t row_in_cache(const KvBlocks& cache, size_t slot, size_t kv_head) {
  const size_t block = slot / cache.block_size;
  const size_t offset = slot % cache.block_size;
  return ((block * cache.num_kv_heads + kv_head) * cache.block_size + offset) * cache.head_dim;
}

// Grid: tokens, heads of q, k and v in fours. A warp does a head.
__global__ void __launch_bounds__(kHeadsOfBlock* kWarpThreads) write_kv_kernel(WriteKvArgs args) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const KvBlocks& cache = args.cache;
  const size_t num_all = args.num_heads + 2 * cache.num_kv_heads;
  const size_t head = static_cast<size_t>(blockIdx.y) * kHeadsOfBlock + warp_index();
  if (head >= num_all) return;
  const size_t token = blockIdx.x;
  const auto half = static_cast<uint32_t>(cache.head_dim / 2);
  const float* const from = args.qkv + (token * num_all + head) * cache.head_dim;
  const auto position = static_cast<size_t>(args.positions[token]);
  const auto slot = static_cast<size_t>(args.slots[token]);

  HeadPairs pairs;
  load_head(from, half, pairs);
  if (head >= args.num_heads + cache.num_kv_heads) {
    const size_t kv_head = head - args.num_heads - cache.num_kv_heads;
    store_head(pairs, 1.0F, half, cache.values + row_in_cache(cache, slot, kv_head));
    return;
  }
  const bool is_query = head < args.num_heads;
  const float* const norm = is_query ? args.q_norm : args.k_norm;
  if (norm != nullptr) normalize_head(from, norm, args.norm_eps, half, pairs);
  rotate_head(args.rope + position * cache.head_dim, half, pairs);
  if (is_query) {
    store_head(
        pairs, args.q_scale, half, args.q + (token * args.num_heads + head) * cache.head_dim
    );
  } else {
    const size_t row = row_in_cache(cache, slot, head - args.num_heads);
    store_head(pairs, 1.0F, half, cache.keys + row);
  }
}

}  // namespace

void write_kv(StreamHandle stream, const WriteKvArgs& args) {
  if (args.num_tokens == 0) return;
  const KvBlocks& cache = args.cache;
  CHECK(args.qkv != nullptr && args.q != nullptr && args.rope != nullptr, "write_kv's memory");
  CHECK(args.positions != nullptr && args.slots != nullptr, "write_kv's memory");
  CHECK(cache.keys != nullptr && cache.values != nullptr, "write_kv's memory");
  CHECK(cache.head_dim > 0 && cache.head_dim % 2 == 0, "a head has pairs of dimensions");
  CHECK(cache.head_dim <= kHeadDimMax, "a head has at most 256 dimensions");
  CHECK(args.num_heads > 0 && cache.num_kv_heads > 0 && cache.block_size > 0, "write_kv's shape");
  const size_t num_all = args.num_heads + 2 * cache.num_kv_heads;
  launch(
      stream,
      {.grid = {grid_width(args.num_tokens), grid_height(div_ceil(num_all, size_t{kHeadsOfBlock}))},
       .block = {kHeadsOfBlock * kWarpThreads}},
      write_kv_kernel,
      args
  );
}

}  // namespace millrace::cuda
