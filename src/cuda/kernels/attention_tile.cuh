// A tile of rows: which these are, and what they see of the cache; and where a block that attends
// to a split of 16 rows has things in shared memory. See paged_attention.h.
#pragma once

#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/attention_memory.cuh"
#include "cuda/kernels/paged_attention.h"
#include "cuda/kernels/token_columns.cuh"

namespace millrace::cuda {

// A tile of one KV head, as every thread knows it. What lies in shared memory is a block's.
class TileTask {
 public:
  __device__ TileTask(const PagedAttentionArgs& args, const AttentionTile& tile, uint32_t kv_head)
      : TileTask(args, tile, kv_head, args.cu_seqlens[tile.sequence]) {}
  // `first_token`: of the sequence.
  __device__ TileTask(
      const PagedAttentionArgs& args,
      const AttentionTile& tile,
      uint32_t kv_head,
      int32_t first_token
  )
      : args_(args),
        memory_(args.cache.head_dim),
        head_dim_(static_cast<uint32_t>(args.cache.head_dim)),
        group_(
            static_cast<uint32_t>(args.num_heads) / static_cast<uint32_t>(args.cache.num_kv_heads)
        ),
        kv_head_(kv_head),
        tile_(tile),
        first_token_(first_token),
        is_whole_(args.cache.head_dim % kWordElements == 0) {}

  __device__ uint32_t num_rows() const { return static_cast<uint32_t>(tile_.num_rows); }
  __device__ uint32_t head_dim() const { return head_dim_; }
  // Whether heads begin at multiples of sixteen bytes.
  __device__ bool is_whole() const { return is_whole_; }

  __device__ uint32_t position_of(uint32_t row) const {
    return has_one_token_ ? last_position_ : load_position(row);
  }
  __device__ uint32_t last_position() const { return last_position_; }
  // Of those that any row sees; one, where there are no rows.
  __device__ uint32_t num_splits() const { return last_position_ / kSplit + 1; }
  // Whether the row sees anything of a split.
  __device__ bool has_row(uint32_t row, uint32_t split) const {
    return row < num_rows() && position_of(row) >= split * kSplit;
  }

  __device__ size_t kv_head() const { return kv_head_; }
  __device__ size_t head_of(uint32_t row) const {
    return kv_head_ * group_ + (first_row() + row) % group_;
  }
  __device__ size_t token_of(uint32_t row) const {
    return static_cast<size_t>(first_token_) + (first_row() + row) / group_;
  }
  // Where a row of q begins.
  __device__ size_t row_begin(uint32_t row) const {
    return (token_of(row) * args_.num_heads + head_of(row)) * head_dim_;
  }
  // Where an element of a row of out lies.
  __device__ size_t out_element(uint32_t row, uint32_t dimension) const {
    return token_element(token_of(row), column_of(row) + dimension, width(), args_.num_tokens);
  }
  // Eight dimensions of one, from a multiple of eight on. REQUIRES: is_whole().
  __device__ void store_out(uint32_t row, uint32_t dimension, const Words4& values) const {
    store_token_columns(
        args_.out, token_of(row), column_of(row) + dimension, width(), args_.num_tokens, values
    );
  }

  // Eight dimensions of a row of q, from a multiple of eight on; zero beyond head_dim.
  __device__ Words4 load_query(uint32_t row, uint32_t dimension) const {
    return load_elements(args_.q + row_begin(row), dimension, head_dim_, is_whole_);
  }
  __device__ BFloat16Bits* out() const { return args_.out; }

  // Shared memory: see TileMemory.
  __device__ BFloat16Bits* queries() const {
    return dynamic_shared<BFloat16Bits>(memory_.queries, kRows * memory_.query_stride);
  }
  __device__ uint32_t query_stride() const { return memory_.query_stride; }
  __device__ float* scores() const {
    return dynamic_shared<float>(memory_.scores, kRows * kScoreStride);
  }
  __device__ uint32_t num_chunks() const { return memory_.num_chunks; }
  // Key or value.
  __device__ BFloat16Bits* fresh_row(bool is_value) const {
    return dynamic_shared<BFloat16Bits>(memory_.fresh_rows, 2 * memory_.query_stride) +
           (is_value ? memory_.query_stride : 0);
  }
  __device__ Words4* staged_keys() const {
    return dynamic_shared<Words4>(
        memory_.keys, (memory_.num_bytes - memory_.keys) / sizeof(Words4)
    );
  }
  __device__ Words4* staged_values() const {
    return dynamic_shared<Words4>(
        memory_.values, (memory_.num_bytes - memory_.values) / sizeof(Words4)
    );
  }
  // What the values of a piece and a chunk come to, in their place.
  __device__ float* products(uint32_t unit) const {
    return dynamic_shared<float>(
        memory_.values + unit * TileMemory::kUnitBytes, kRows * kProductStride
    );
  }

  __device__ BFloat16Bits* weights() const {
    return dynamic_shared<BFloat16Bits>(memory_.weights, kRows * kWeightStride);
  }
  __device__ uint32_t* cache_rows() const {
    return dynamic_shared<uint32_t>(memory_.cache_rows, kSplit);
  }
  __device__ float* row_values(uint32_t which) const {
    return dynamic_shared<float>(memory_.row_values, 2 * kRows) + which * kRows;
  }
  // Of the split.
  __device__ float* maxima() const { return row_values(0); }
  __device__ float* sums() const { return row_values(1); }
  // A word that the block shares.
  __device__ uint32_t* shared_word() const {
    return dynamic_shared<uint32_t>(memory_.shared_word, 1);
  }

  // Zeros beyond head_dim and in rows that are not there.
  __device__ void load_queries() const {
    for (uint32_t row = warp_index(); row < kRows; row += kSplitWarps) {
      const BFloat16Bits* const from = row < num_rows() ? args_.q + row_begin(row) : nullptr;
      BFloat16Bits* const to = queries() + row * query_stride();
      for (uint32_t i = lane_index(); i < query_stride(); i += kWarpThreads) {
        to[i] = from != nullptr && i < head_dim_ ? from[i] : BFloat16Bits{0};
      }
    }
  }

  // Which row of the cache has a position that the tile sees.
  __device__ uint32_t cache_row(uint32_t position) const {
    const int32_t* const table =
        args_.block_tables + static_cast<size_t>(tile_.sequence) * args_.blocks_per_sequence_max;
    const auto num_kv_heads = static_cast<uint32_t>(args_.cache.num_kv_heads);
    const auto block_size = static_cast<uint32_t>(args_.cache.block_size);
    const uint32_t index = position / block_size;
    const auto block = static_cast<uint32_t>(table[index]);
    return (block * num_kv_heads + kv_head_) * block_size + (position - index * block_size);
  }
  // The same of each position of the split, up to the last that the tile sees; some row beyond.
  __device__ void find_cache_rows(uint32_t split) const {
    constexpr uint32_t kThreadRows = kSplit / kSplitThreads;
    uint32_t rows[kThreadRows];
#pragma unroll
    for (uint32_t i = 0; i < kThreadRows; ++i) {
      const uint32_t position = split * kSplit + i * kSplitThreads + threadIdx.x;
      rows[i] = position <= last_position_ ? cache_row(position) : 0;
    }
#pragma unroll
    for (uint32_t i = 0; i < kThreadRows; ++i) {
      cache_rows()[i * kSplitThreads + threadIdx.x] = rows[i];
    }
  }

  // Positions of the split that any row sees.
  __device__ uint32_t num_seen(uint32_t split) const {
    const uint32_t num_left = last_position_ + 1 - split * kSplit;
    return num_left < kSplit ? num_left : kSplit;
  }
  __device__ const BFloat16Bits* keys() const {
    return args_.cache.keys;
  }
  __device__ const BFloat16Bits* values() const {
    return args_.cache.values;
  }

 private:
  __device__ uint32_t first_row() const {
    return static_cast<uint32_t>(tile_.first_row);
  }
  __device__ size_t column_of(uint32_t row) const {
    return head_of(row) * head_dim_;
  }
  __device__ size_t width() const {
    return args_.num_heads * head_dim_;
  }
  __device__ uint32_t load_position(uint32_t row) const {
    return static_cast<uint32_t>(args_.positions[token_of(row)]);
  }

  const PagedAttentionArgs& args_;
  TileMemory memory_;
  uint32_t head_dim_;
  uint32_t group_;
  uint32_t kv_head_;
  AttentionTile tile_;
  int32_t first_token_;
  bool is_whole_;
  uint32_t last_position_ = num_rows() > 0 ? load_position(num_rows() - 1) : 0;
  bool has_one_token_ = num_rows() > 0 && token_of(0) == token_of(num_rows() - 1);
};

}  // namespace millrace::cuda
