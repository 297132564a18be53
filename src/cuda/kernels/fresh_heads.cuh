// The heads of a token as a block of attention takes them from the product that made them: a tile's
// queries, and the KV head's key and value where the block is the one to write them to the cache,
// and finds them in shared memory too.
#pragma once

#include "cuda/kernels/attention_tile.cuh"
#include "cuda/kernels/head_rotation.cuh"
#include "cuda/kernels/write_kv.h"

namespace millrace::cuda {

// Heads 0 to num_rows - 1 are the tile's queries, then come the key and the value. A warp has every
// eighth; all that it loads is under way at once. Called by the whole block.
template <uint32_t kPairs>
class FreshHeads {
 public:
  // Reads what was there before the step's first kernel. REQUIRES: the rows are of one token.
  __device__ FreshHeads(const WriteKvArgs& args, const TileTask& task, bool writes_cache)
      : args_(args),
        task_(task),
        num_queries_(task.num_rows()),
        num_heads_(task.num_rows() + (writes_cache ? 2 : 0)),
        half_(task.head_dim() / 2) {
    const KvBlocks& cache = args.cache;
    const size_t token = task.token_of(0);
    const size_t num_all = args.num_heads + 2 * cache.num_kv_heads;
    from_ = args.qkv + token * num_all * cache.head_dim;
    load_head(args.rope + task.last_position() * cache.head_dim, half_, angles_);
    prefetch_weights(args.q_norm);
    prefetch_weights(args.k_norm);
    if (writes_cache) slot_ = static_cast<uint32_t>(args.slots[token]);
#pragma unroll
    for (uint32_t i = 0; i < kHeadsOfWarp; ++i) {
      // Whose turn is beyond the last head loads the last again.
      const uint32_t mine = head_of_warp(i);
      const uint32_t head = mine < num_heads_ ? mine : num_heads_ - 1;
      const size_t of_all = head < num_queries_    ? task.head_of(0) + head
                            : head == num_queries_ ? args.num_heads + task.kv_head()
                                                   : num_all - cache.num_kv_heads + task.kv_head();
      begins_[i] = static_cast<uint32_t>(of_all * cache.head_dim);
    }
    clear_queries();
  }

  // What write_kv() does of them: rounded, to the tile's queries and to the cache.
  __device__ void rotate() const {
    HeadPairs<kPairs> pairs[kHeadsOfWarp];
#pragma unroll
    for (uint32_t i = 0; i < kHeadsOfWarp; ++i) load_head(from_ + begins_[i], half_, pairs[i]);
    const size_t cache_row = row_in_cache(args_.cache, slot_, task_.kv_head());
    if (args_.q_norm != nullptr || args_.k_norm != nullptr) normalize(pairs);
#pragma unroll
    for (uint32_t i = 0; i < kHeadsOfWarp; ++i) {
      const uint32_t head = head_of_warp(i);
      if (head >= num_heads_) continue;
      if (head <= num_queries_) rotate_head(angles_, pairs[i]);
      if (head < num_queries_) {
        store_head(pairs[i], args_.q_scale, half_, task_.queries() + head * task_.query_stride());
        continue;
      }
      const bool is_value = head > num_queries_;
      const KvBlocks& cache = args_.cache;
      store_head(pairs[i], 1.0F, half_, (is_value ? cache.values : cache.keys) + cache_row);
      store_head(pairs[i], 1.0F, half_, task_.fresh_row(is_value));
    }
  }

 private:
  static constexpr uint32_t kHeadsOfWarp = (kRows + 2 + kSplitWarps - 1) / kSplitWarps;

  __device__ static uint32_t head_of_warp(uint32_t i) {
    return i * kSplitWarps + warp_index();
  }

  // No registers for them yet; null: nothing.
  __device__ void prefetch_weights(const float* weights) const {
    constexpr uint32_t kLineElements = 32;
    const uint32_t i = threadIdx.x * kLineElements;
    if (weights != nullptr && i < 2 * half_) prefetch(weights + i);
  }

  __device__ void normalize(HeadPairs<kPairs> (&pairs)[kHeadsOfWarp]) const {
    HeadPairs<kPairs> q_weights = {};
    HeadPairs<kPairs> k_weights = {};
    if (args_.q_norm != nullptr) load_head(args_.q_norm, half_, q_weights);
    if (args_.k_norm != nullptr) load_head(args_.k_norm, half_, k_weights);
    float sums[kHeadsOfWarp];
#pragma unroll
    for (uint32_t i = 0; i < kHeadsOfWarp; ++i) {
      sums[i] = sum_of_squares(from_ + begins_[i], half_, pairs[i]);
    }
    // Divisions are long: lane i does head i's.
    float of_lane = 0.0F;
#pragma unroll
    for (uint32_t i = 0; i < kHeadsOfWarp; ++i) {
      const float sum = sum_over_warp(sums[i]);
      of_lane = lane_index() == i ? sum : of_lane;
    }
    const float factor_of_lane = inverse_rms(of_lane, 2 * half_, args_.norm_eps);
#pragma unroll
    for (uint32_t i = 0; i < kHeadsOfWarp; ++i) {
      const uint32_t head = head_of_warp(i);
      const float factor = shuffle(factor_of_lane, i);
      if (head < num_queries_ && args_.q_norm != nullptr) {
        normalize_head(factor, q_weights, pairs[i]);
      } else if (head == num_queries_ && args_.k_norm != nullptr) {
        normalize_head(factor, k_weights, pairs[i]);
      }
    }
  }

  // Zeros beyond head_dim and in rows that are not there: TileTask::load_queries().
  __device__ void clear_queries() const {
    for (uint32_t row = warp_index(); row < kRows; row += kSplitWarps) {
      BFloat16Bits* const to = task_.queries() + row * task_.query_stride();
      const uint32_t begin = row < num_queries_ ? task_.head_dim() : 0;
      for (uint32_t i = begin + lane_index(); i < task_.query_stride(); i += kWarpThreads) {
        to[i] = 0;
      }
    }
  }

  const WriteKvArgs& args_;
  const TileTask& task_;
  uint32_t num_queries_;
  uint32_t num_heads_;
  uint32_t half_;
  HeadPairs<kPairs> angles_;
  const float* from_;              // the token's heads
  uint32_t begins_[kHeadsOfWarp];  // of the warp's, among them
  uint32_t slot_ = 0;              // of the key and the value, where they are written
};

}  // namespace millrace::cuda
