// paged_attention() for prompts, on a device that has wgmma: the same bits at several times the
// speed. CUDA-free.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/paged_attention.h"
#include "cuda/stream.h"

namespace millrace::cuda {

// Heads that there are kernels for.
constexpr bool is_wide_head_dim(size_t head_dim) {
  return head_dim == 64 || head_dim == 128;
}

// Whether paged_attention_wide() takes heads of so many dimensions, on the device at hand.
bool is_for_attention_wide(size_t head_dim);

// `args.tiles`: wide_attention_tiles(), behind which those of no rows may come. Where a value is
// infinite, the neighbours of a row in its tile may see it before their time.
// REQUIRES: is_for_attention_wide(); more than kFewTokens tokens.
void paged_attention_wide(StreamHandle stream, const PagedAttentionArgs& args);

}  // namespace millrace::cuda
