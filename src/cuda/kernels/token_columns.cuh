// How kernels write what linear() multiplies: see operand_tiles.h.
#pragma once

#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/operand_tiles.h"

namespace millrace::cuda {

// Columns [column, column + 8) of a token, to where token_element() says that they lie.
// What lies beyond the width becomes padding. REQUIRES: `column` is a multiple of eight.
__device__ inline void store_token_columns(
    BFloat16Bits* out,
    size_t token,
    size_t column,
    size_t width,
    size_t num_tokens,
    const Words4& columns
) {
  BFloat16Bits* const place = out + token_element(token, column, width, num_tokens);
  if (num_tokens > kFewTokens) return store_words(place, columns);
#pragma unroll
  for (uint32_t i = 0; i < 4; ++i) store_word(place + i * kLaneChunkElements, columns.words[i]);
}

}  // namespace millrace::cuda
