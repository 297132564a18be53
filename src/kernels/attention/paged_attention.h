// Causal attention of a ragged batch over a paged KV cache: prefill chunks and decodes together.
// Query heads share a KV head in groups.
//
// A token at position p attends to positions 0 .. p of its sequence. The context is cut into splits
// of kSplitPositions at fixed absolute positions. For each head of the token, in each split:
//
//   scores   q.k with q scaled by 1 / sqrt(head_dim) first, summed over head_dim; a score beyond
//            the largest float counts as that
//   m, l     their maximum; the sum of the exponentials e of the differences to it, in 16 lanes
//   o        the values weighted by those, summed over positions in ascending order
//
// and the splits are merged in ascending order: with M' = max(M, m), L = l * exp(m - M') +
// L * exp(M - M'), and O likewise, the first product fused. The result is O / L, and 0 where no
// score is above -infinity. So it depends on q, K, V and p only: never on the chunking, the
// neighbours, the threads or where the blocks lie.
//
//   KV                 q and e                order of a sum
//   float32, float16   float32                ascending; lane i sums positions i, i + 16, ...
//   bfloat16           rounded to bfloat16    pair by pair, of each pair the odd one first; lane i
//                                             sums the pairs i, i + 16, ... of positions
//   bfloat16 with AMX  likewise               step by step: of 32 dimensions or 16 positions the
//                                             even ones are summed, and the odd ones, from 0; both
//                                             together are added; a sum of -0 is 0. l as before
//
// Each product is fused into its sum; denormals are zero. For bfloat16 that is what vdpbf16ps does,
// and tdpbf16ps (docs/decisions/0020).
// Rounding q and e to 8 bits costs less than 2e-3 of the largest value (paged_attention_test.cpp).
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
  std::span<const int32_t> positions;     // [num_tokens], absolute; of a sequence: consecutive
  std::span<const int32_t> cu_seqlens;    // [num_sequences + 1], first token of each sequence
  std::span<const int32_t> block_tables;  // [num_sequences, blocks_per_sequence_max], row-major
  size_t blocks_per_sequence_max = 0;
  std::span<float> scratch;  // paged_attention_scratch_size() for the longest context
  Rows out;                  // [num_tokens, num_heads * head_dim]; must not overlap q
};

struct PagedAttentionLimits {
  size_t num_threads = 0;
  size_t num_heads = 0;
  size_t num_kv_heads = 0;
  size_t head_dim = 0;
  size_t context_max = 0;  // tokens of a sequence
};

// Floats of scratch: for each thread a tile of queries with its results, and the results of one
// token for each split of the longest context but the first.
size_t paged_attention_scratch_size(const PagedAttentionLimits& limits);

// Tiles of a few tokens x the heads of a group are dealt to the threads by what they cost; a tile
// may be cut between two splits.
void paged_attention(const Executor& executor, const PagedAttentionArgs& args);

}  // namespace millrace
