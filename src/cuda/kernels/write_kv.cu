#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/head_rotation.cuh"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/write_kv.h"

namespace millrace::cuda {
namespace {

constexpr uint32_t kHeadsOfBlock = 4;  // a warp each
// Grid: tokens, heads of q, k and v in fours. A warp does a head.
template <uint32_t kPairs>
__global__ void __launch_bounds__(kHeadsOfBlock* kWarpThreads) write_kv_kernel(WriteKvArgs args) {
  allow_next_kernel();
  const KvBlocks& cache = args.cache;
  const size_t num_all = args.num_heads + 2 * cache.num_kv_heads;
  const size_t head = static_cast<size_t>(blockIdx.y) * kHeadsOfBlock + warp_index();
  const size_t token = blockIdx.x;
  const auto half = static_cast<uint32_t>(cache.head_dim / 2);
  const float* const from = args.qkv + (token * num_all + head) * cache.head_dim;
  const auto position = static_cast<size_t>(args.positions[token]);
  const auto slot = static_cast<uint32_t>(args.slots[token]);
  wait_for_previous_kernel();
  if (head >= num_all) return;

  HeadPairs<kPairs> pairs;
  load_head(from, half, pairs);
  if (head >= args.num_heads + cache.num_kv_heads) {
    const size_t kv_head = head - args.num_heads - cache.num_kv_heads;
    store_head(pairs, 1.0F, half, cache.values + row_in_cache(cache, slot, kv_head));
    return;
  }
  const bool is_query = head < args.num_heads;
  const float* const norm = is_query ? args.q_norm : args.k_norm;
  if (norm != nullptr) {
    HeadPairs<kPairs> weights;
    load_head(norm, half, weights);
    const float sum = sum_over_warp(sum_of_squares(from, half, pairs));
    normalize_head(inverse_rms(sum, 2 * half, args.norm_eps), weights, pairs);
  }
  HeadPairs<kPairs> angles;
  load_head(args.rope + position * cache.head_dim, half, angles);
  rotate_head(angles, pairs);
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
  const LaunchShape shape = {
      .grid = {grid_width(args.num_tokens), grid_height(div_ceil(num_all, size_t{kHeadsOfBlock}))},
      .block = {kHeadsOfBlock * kWarpThreads}};
  with_lane_pairs(cache.head_dim, [&](auto num_pairs) {
    launch(stream, shape, write_kv_kernel<num_pairs()>, args);
  });
}

}  // namespace millrace::cuda
