// What paged_attention.cpp asks of each instruction set: some splits of the context for one tile of
// queries. Plain data only (lanes.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace {

// The context is split at multiples of this; see paged_attention.h. With 512, prompts at 8k were up
// to 8 % faster and short ones the same; 256 leaves a long context in more parts for the threads.
constexpr size_t kSplitPositions = 256;

// The largest head_dim.
constexpr size_t kHeadDimMax = 256;

// Consecutive tokens of one sequence x the query heads that share a KV head. Row r is head
// r % num_heads of token r / num_heads.
struct AttentionTile {
  const float* q;  // [num_tokens][num_heads][head_dim], tokens q_stride apart
  size_t q_stride;
  float* out;  // likewise, tokens out_stride apart
  size_t out_stride;
  size_t num_tokens;
  size_t num_heads;
  size_t head_dim;
  size_t first_position;  // of the first token; the others follow
  const int32_t* blocks;  // those of the sequence, up to the last token's position
  const void* keys;       // of this KV head in block 0, see kv_view.h
  const void* values;
  size_t block_stride;  // elements from a block to the next
  size_t block_size;
  float scale;
  bool is_hinted_soon;        // memory is asked for what lies ahead into the first cache
  const AttentionTile* next;  // what the thread attends to next, to be asked for too; or null
  size_t next_split;          // where it begins
  void* queries;  // scratch, query_scratch_size() floats a row: q as the products read it
};

// Of a row of queries: floats, or for AMX bfloat16 with zeros up to a multiple of 32.
constexpr size_t query_scratch_size(size_t head_dim) {
  return head_dim < 16 ? 16 : head_dim;
}

// The result over one split, or over all from the first to some split:
//   maxima   [num_rows]            the largest score
//   sums     [num_rows]            of the exponentials of the differences to it
//   outputs  [num_rows, head_dim]  the values weighted by those
// one after the other, num_rows * (2 + head_dim) floats. Rows whose tokens come before the split
// are not touched.

// Computes splits [split_begin, split_end). From the first one on they are merged into the state
// `results`; others are only stored, each as a state of its own, one after the other at `results`.
// Kv: float, Float16 or BFloat16.
template <class Kv>
void attend_reference(
    const AttentionTile& tile, size_t split_begin, size_t split_end, float* results
);
template <class Kv>
void attend_avx2(const AttentionTile& tile, size_t split_begin, size_t split_end, float* results);
template <class Kv>
void attend_avx512(const AttentionTile& tile, size_t split_begin, size_t split_end, float* results);
// Kv is BFloat16.
void attend_avx512_dot(
    const AttentionTile& tile, size_t split_begin, size_t split_end, float* results
);
// Again, in the order of AMX (docs/decisions/0020): its definition, and the kernel. It reads all of
// a chunk of 16 positions that some row sees.
void attend_amx_reference(
    const AttentionTile& tile, size_t split_begin, size_t split_end, float* results
);
void attend_amx(const AttentionTile& tile, size_t split_begin, size_t split_end, float* results);

// Merges the state of a split into that of all splits before it.
void merge_split_reference(
    const AttentionTile& tile, size_t split, const float* part, float* state
);
void merge_split_avx2(const AttentionTile& tile, size_t split, const float* part, float* state);
void merge_split_avx512(const AttentionTile& tile, size_t split, const float* part, float* state);

// Writes the tile's results from the state of all splits.
void finish_tile_reference(const AttentionTile& tile, const float* state);
void finish_tile_avx2(const AttentionTile& tile, const float* state);
void finish_tile_avx512(const AttentionTile& tile, const float* state);

}  // namespace millrace
