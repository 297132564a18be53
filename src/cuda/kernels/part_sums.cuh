// How the warps of a block that have a part each of a panel's sums come to the whole.
#pragma once

#include "cuda/kernels/arithmetic.cuh"

namespace millrace::cuda {

// The sums of all parts of a panel, in ascending order, to the warp of part 0.
// kTiles: of 16 rows by 8 tokens, that a warp has the sums of. `offset_bytes`: of sum_bytes() in
// shared memory. By the whole block.
template <uint32_t kTiles>
__device__ void add_parts(
    uint32_t num_parts, uint32_t part, size_t offset_bytes, float (&sums)[kTiles][4]
) {
  constexpr uint32_t kStride = kTiles * kWarpThreads;  // of a warp
  Words4* const shared = dynamic_shared<Words4>(offset_bytes, num_warps() * kStride) +
                         warp_index() * kStride + lane_index();
  if (part != 0) {
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      Words4 words;
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) words.words[i] = bits_from_float(sums[tile][i]);
      store_words(shared + tile * kWarpThreads, words);
    }
  }
  sync_block();
  if (part == 0) {
#pragma unroll 1
    for (uint32_t other = 1; other < num_parts; ++other) {
#pragma unroll
      for (uint32_t tile = 0; tile < kTiles; ++tile) {
        const Words4 words = load_words(shared + other * kStride + tile * kWarpThreads);
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) sums[tile][i] += float_from_bits(words.words[i]);
      }
    }
  }
}

}  // namespace millrace::cuda
