// A tile of 16 rows as its block knows it: which rows these are, what they see of the cache, and
// where things lie in shared memory. See paged_attention.h.
#pragma once

#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/paged_attention.h"

namespace millrace::cuda {

constexpr uint32_t kAttentionThreads = 128;
constexpr uint32_t kAttentionWarps = kAttentionThreads / kWarpThreads;
constexpr uint32_t kRows = kAttentionTileRows;
constexpr uint32_t kSplit = kSplitPositions;
constexpr uint32_t kWarpPositions = kSplit / kAttentionWarps;  // of a split
constexpr uint32_t kChunk = 64;  // dimensions whose values are weighted at once

// Rows in shared memory begin in different banks.
constexpr uint32_t kScoreStride = kSplit + 4;
constexpr uint32_t kWeightStride = kSplit + 8;
constexpr uint32_t kProductStride = kChunk + 4;

// Where things lie in a block's shared memory, in bytes; each a multiple of 16.
struct TileMemory {
  size_t queries;     // bfloat16 [kRows][query_stride]
  size_t scores;      // float [kRows][kScoreStride]; then the warps' products
  size_t weights;     // bfloat16 [kRows][kWeightStride]
  size_t cache_rows;  // uint64 [kSplit]
  size_t row_values;  // float [4][kRows]: maxima, sums, factors to keep and to add
  size_t state;       // float [2 + head_dim][kRows] in all: maxima, sums, outputs
  size_t num_bytes;
  uint32_t query_stride;  // elements

  // products: float [kAttentionWarps][kRows][kProductStride]
  static constexpr size_t kScoreBytes = size_t{kAttentionWarps} * kRows * kProductStride * 4;
  static_assert(kScoreBytes >= size_t{kRows} * kScoreStride * 4);

  __host__ __device__ explicit TileMemory(size_t head_dim) {
    query_stride = static_cast<uint32_t>((head_dim + 31) / 32 * 32 + 8);
    queries = 0;
    scores = queries + size_t{kRows} * query_stride * 2;
    weights = scores + kScoreBytes;
    cache_rows = weights + size_t{kRows} * kWeightStride * 2;
    row_values = cache_rows + size_t{kSplit} * 8;
    state = row_values + size_t{4} * kRows * 4;
    num_bytes = state + (2 + head_dim) * kRows * 4;
  }
};

// A tile of one KV head, as every thread of its block knows it.
class TileTask {
 public:
  __device__ TileTask(const PagedAttentionArgs& args, const AttentionTile& tile, uint32_t kv_head)
      : args_(args),
        memory_(args.cache.head_dim),
        head_dim_(static_cast<uint32_t>(args.cache.head_dim)),
        group_(static_cast<uint32_t>(args.num_heads / args.cache.num_kv_heads)),
        kv_head_(kv_head),
        tile_(tile),
        first_token_(args.cu_seqlens[tile.sequence]),
        is_whole_(args.cache.head_dim % kWordElements == 0) {}

  __device__ uint32_t num_rows() const { return static_cast<uint32_t>(tile_.num_rows); }
  __device__ uint32_t head_dim() const { return head_dim_; }

  __device__ uint32_t position_of(uint32_t row) const {
    return static_cast<uint32_t>(args_.positions[token_of(row)]);
  }
  __device__ uint32_t last_position() const { return position_of(num_rows() - 1); }
  __device__ uint32_t num_splits() const { return last_position() / kSplit + 1; }
  // Whether the row sees anything of a split.
  __device__ bool has_row(uint32_t row, uint32_t split) const {
    return row < num_rows() && position_of(row) >= split * kSplit;
  }

  // Where a row of q and of out begins.
  __device__ size_t row_begin(uint32_t row) const {
    const size_t head = kv_head_ * group_ + (first_row() + row) % group_;
    return (token_of(row) * args_.num_heads + head) * head_dim_;
  }

  // Shared memory: see TileMemory.
  __device__ BFloat16Bits* queries() const {
    return dynamic_shared<BFloat16Bits>(memory_.queries, kRows * memory_.query_stride);
  }
  __device__ uint32_t query_stride() const { return memory_.query_stride; }
  __device__ float* scores() const {
    return dynamic_shared<float>(memory_.scores, TileMemory::kScoreBytes / 4);
  }
  __device__ BFloat16Bits* weights() const {
    return dynamic_shared<BFloat16Bits>(memory_.weights, kRows * kWeightStride);
  }
  __device__ uint64_t* cache_rows() const {
    return dynamic_shared<uint64_t>(memory_.cache_rows, kSplit);
  }
  __device__ float* row_values(uint32_t which) const {
    return dynamic_shared<float>(memory_.row_values, 4 * kRows) + which * kRows;
  }
  __device__ float* maxima() const { return row_values(0); }  // of the split
  __device__ float* sums() const { return row_values(1); }
  __device__ float* state() const {
    return dynamic_shared<float>(memory_.state, (2 + head_dim_) * kRows);
  }

  // Zeros beyond head_dim and in rows that are not there.
  __device__ void load_queries() const {
    for (uint32_t row = warp_index(); row < kRows; row += kAttentionWarps) {
      const BFloat16Bits* const from = row < num_rows() ? args_.q + row_begin(row) : nullptr;
      BFloat16Bits* const to = queries() + row * query_stride();
      for (uint32_t i = lane_index(); i < query_stride(); i += kWarpThreads) {
        to[i] = from != nullptr && i < head_dim_ ? from[i] : BFloat16Bits{0};
      }
    }
  }

  // Which row of the cache has each position of the split, up to the last that the tile sees.
  __device__ void find_cache_rows(uint32_t split) const {
    const int32_t* const table =
        args_.block_tables + static_cast<size_t>(tile_.sequence) * args_.blocks_per_sequence_max;
    const KvBlocks& cache = args_.cache;
    for (uint32_t i = threadIdx.x; i < kSplit; i += kAttentionThreads) {
      const uint32_t position = split * kSplit + i;
      if (position > last_position_) continue;
      const auto block = static_cast<size_t>(table[position / cache.block_size]);
      cache_rows()[i] =
          (block * cache.num_kv_heads + kv_head_) * cache.block_size + position % cache.block_size;
    }
  }

  // Eight dimensions of a key or a value at position `i` of the split; zero where nothing is seen.
  __device__ Words4
  load_cached(const BFloat16Bits* from, uint32_t split, uint32_t i, uint32_t dimension) const {
    if (split * kSplit + i > last_position_) return {};
    return load_elements(from + cache_rows()[i] * head_dim_, dimension, head_dim_, is_whole_);
  }
  __device__ const BFloat16Bits* keys() const { return args_.cache.keys; }
  __device__ const BFloat16Bits* values() const { return args_.cache.values; }

 private:
  __device__ uint32_t first_row() const { return static_cast<uint32_t>(tile_.first_row); }
  __device__ size_t token_of(uint32_t row) const {
    return static_cast<size_t>(first_token_) + (first_row() + row) / group_;
  }

  const PagedAttentionArgs& args_;
  TileMemory memory_;
  uint32_t head_dim_;
  uint32_t group_;
  uint32_t kv_head_;
  AttentionTile tile_;
  int32_t first_token_;
  bool is_whole_;
  uint32_t last_position_ = last_position();
};

}  // namespace millrace::cuda
