// Causal attention of a ragged batch over a paged KV cache: prefill chunks and decodes together.
//
// A token at position p attends to positions 0 .. p of its sequence. For each of its heads: the
// scores q.k (summed over head_dim in ascending order) times 1 / sqrt(head_dim); their maximum; the
// exponentials of the differences; the sum of those in 16 lanes (lane i takes positions i, i + 16,
// ..., then halves, see lanes.h); the values weighted by them, summed over positions in ascending
// order; and the division by the sum. So the result depends on q, K, V and p only, never on the
// chunking, the neighbours or where the blocks lie. Query heads share a KV head in groups.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/attention/kv_view.h"
#include "kernels/executor.h"
#include "kernels/rows.h"

namespace millrace {

struct PagedAttentionArgs {
  ConstRows q;  // [num_tokens, num_heads * head_dim]
  size_t num_heads = 0;
  KvView cache;
  std::span<const int32_t> positions;     // [num_tokens], absolute
  std::span<const int32_t> cu_seqlens;    // [num_sequences + 1], first token of each sequence
  std::span<const int32_t> block_tables;  // [num_sequences, blocks_per_sequence_max], row-major
  size_t blocks_per_sequence_max = 0;
  std::span<float> scratch;  // paged_attention_scratch_size() for the longest context
  Rows out;                  // [num_tokens, num_heads * head_dim]; must not overlap q
};

// Floats of scratch for contexts of up to `context_max` tokens.
size_t paged_attention_scratch_size(
    size_t num_threads, size_t num_heads_per_kv_head, size_t context_max
);

// (token, KV head) pairs are dealt to the threads in turn.
void paged_attention(const Executor& executor, const PagedAttentionArgs& args);

}  // namespace millrace
