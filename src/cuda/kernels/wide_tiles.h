// How many tokens a tile of a prompt's product has: what native/linear_wide.cu has kernels for.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/math.h"
#include "cuda/kernels/operand_tiles.h"

namespace millrace::cuda {

constexpr uint32_t kWideTokens[] = {256, 192, 128, 64};

// Of kGroupPanels panels and so many tokens each.
constexpr size_t num_wide_tiles(size_t num_panels, size_t num_tokens, uint32_t tokens_of_tile) {
  return div_ceil(num_tokens, size_t{tokens_of_tile}) * div_ceil(num_panels, size_t{kGroupPanels});
}

// How long a device takes for them, a multiprocessor having one after the other; in the unit of
// `of_tile`.
constexpr size_t wide_cost(size_t num_tiles, size_t num_multiprocessors, size_t of_tile) {
  return div_ceil(num_tiles, num_multiprocessors) * of_tile;
}

// The size with which a device is done first. In cycles, of a chunk and of what follows a tile's
// sums: a chunk's weights go to shared memory and from there to registers, its tokens to shared
// memory and twice from there to the tensor cores, 128 bytes a cycle (decision 31).
constexpr uint32_t tokens_of_wide_tile(
    size_t num_panels, size_t num_tokens, size_t num_chunks, size_t num_multiprocessors
) {
  size_t least = SIZE_MAX;
  uint32_t best = 0;
  for (const uint32_t tokens : kWideTokens) {
    const size_t of_chunk = 256 + size_t{tokens} * 3;
    const size_t of_tile = num_chunks * of_chunk + 1000 + size_t{tokens} * 16;
    const size_t num_tiles = num_wide_tiles(num_panels, num_tokens, tokens);
    const size_t cost = wide_cost(num_tiles, num_multiprocessors, of_tile);
    if (cost >= least) continue;
    least = cost;
    best = tokens;
  }
  return best;
}

}  // namespace millrace::cuda
