// What paged_attention.cpp asks of each instruction set: one token and the group of query heads
// that share one KV head. Plain data only (lanes.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace {

struct AttentionItem {
  const float* q;  // [num_heads, head_dim]
  float* out;      // [num_heads, head_dim]
  size_t num_heads;
  size_t head_dim;
  size_t context;         // positions 0 .. context - 1 take part
  const int32_t* blocks;  // [ceil(context / block_size)]
  const void* keys;       // of this KV head in block 0: [head_dim][block_size]
  const void* values;     // of this KV head in block 0: [block_size][head_dim]
  size_t block_stride;    // elements from a block to the next
  size_t block_size;
  float scale;
  float* scores;         // scratch, [num_heads, scores_stride]
  size_t scores_stride;  // context rounded up to 16
  float* sums;           // scratch, [num_heads]
};

// Kv: float, Float16 or BFloat16.
template <class Kv>
void attend_reference(const AttentionItem& item);
template <class Kv>
void attend_avx2(const AttentionItem& item);
template <class Kv>
void attend_avx512(const AttentionItem& item);

}  // namespace millrace
