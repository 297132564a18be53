// Where things lie in shared memory where a block attends to a split of a tile: paged_attention.h.
#pragma once

#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/paged_attention.h"

namespace millrace::cuda {

constexpr uint32_t kSplitThreads = 256;  // that share a split
constexpr uint32_t kSplitWarps = kSplitThreads / kWarpThreads;
constexpr uint32_t kRows = kAttentionTileRows;
constexpr uint32_t kSplit = kSplitPositions;
constexpr uint32_t kPiece = 64;  // positions whose values are summed by themselves
constexpr uint32_t kPieces = kSplit / kPiece;
constexpr uint32_t kChunk = 64;  // dimensions whose values are weighted at once

// Rows in shared memory begin in different banks.
constexpr uint32_t kScoreStride = kSplit + 4;
constexpr uint32_t kWeightStride = kSplit + 8;
constexpr uint32_t kProductStride = kChunk + 4;

// Where things lie in a block's shared memory, in bytes; each a multiple of 16.
struct TileMemory {
  size_t queries;     // bfloat16 [kRows][query_stride]
  size_t scores;      // float [kRows][kScoreStride]
  size_t weights;     // bfloat16 [kRows][kWeightStride]
  size_t fresh_rows;  // bfloat16 [2][query_stride]: a key and a value that are new in the cache
  size_t cache_rows;  // uint32 [kSplit]
  size_t row_values;  // float [2][kRows]: maxima, sums
  size_t shared_word;
  size_t keys;    // StagedCache's
  size_t values;  // StagedCache's of each piece and chunk; then, or only, what they come to
  size_t num_bytes;
  uint32_t query_stride;  // elements
  uint32_t num_chunks;

  // Of a piece and a chunk: bfloat16 [kPiece][kChunk], then float [kRows][kProductStride].
  static constexpr size_t kUnitBytes = size_t{kPiece} * kChunk * 2;
  static_assert(kUnitBytes >= size_t{kRows} * kProductStride * 4);

  __host__ __device__ explicit TileMemory(size_t head_dim) {
    query_stride = static_cast<uint32_t>((head_dim + 31) / 32 * 32 + 8);
    num_chunks = static_cast<uint32_t>((head_dim + kChunk - 1) / kChunk);
    const size_t num_split_bytes = num_chunks * kPieces * kUnitBytes;
    queries = 0;
    scores = queries + size_t{kRows} * query_stride * 2;
    weights = scores + size_t{kRows} * kScoreStride * 4;
    fresh_rows = weights + size_t{kRows} * kWeightStride * 2;
    cache_rows = fresh_rows + size_t{2} * query_stride * 2;
    row_values = cache_rows + size_t{kSplit} * 4;
    shared_word = row_values + size_t{2} * kRows * 4;
    keys = shared_word + 16;
    values = keys + (is_staged(head_dim) && !has_one_place(head_dim) ? num_split_bytes : 0);
    num_bytes = values + num_split_bytes;
  }

  // Whether keys and values of a split go through shared memory.
  __host__ __device__ static bool is_staged(size_t head_dim) {
    constexpr size_t kHeadDimStaged = 128;
    return head_dim % kWordElements == 0 && head_dim <= kHeadDimStaged;
  }
  // Whether values come to where keys have been: with both, no kernel of products would find room
  // beside a block.
  __host__ __device__ static bool has_one_place(size_t head_dim) { return head_dim > kChunk; }
};

}  // namespace millrace::cuda
