// How kernels split tokens whose inputs all weights pass by. See lanes.h for the rules of this
// file.
#pragma once

#include <cstddef>

namespace millrace {
namespace {

// Blocks that a cache holds, nearly equal: a small last one would read all weights for few tokens.
struct TokenBlocks {
  size_t num_bytes_max;    // of a block's inputs
  size_t num_tokens_max;   // a multiple of num_tile_tokens
  size_t num_tile_tokens;  // what every block but the last has a multiple of

  // Tokens of each block but the last, which has no more.
  constexpr size_t num_tokens_of(size_t num_tokens, size_t row_bytes) const {
    const size_t fitting = num_bytes_max / row_bytes / num_tile_tokens * num_tile_tokens;
    const size_t at_least_one = fitting < num_tile_tokens ? num_tile_tokens : fitting;
    const size_t most = at_least_one < num_tokens_max ? at_least_one : num_tokens_max;
    const size_t num_blocks = (num_tokens + most - 1) / most;
    const size_t tiles = (num_tokens + num_tile_tokens - 1) / num_tile_tokens;
    return (tiles + num_blocks - 1) / num_blocks * num_tile_tokens;
  }
};

// A block of tokens, dealt evenly over tiles: the first ones have a token more.
struct TokenTiles {
  size_t num_tiles;
  size_t least;
  size_t num_larger;

  TokenTiles(size_t num_tokens, size_t tiles)
      : num_tiles(tiles), least(num_tokens / tiles), num_larger(num_tokens % tiles) {}

  size_t begin(size_t tile) const { return tile * least + (tile < num_larger ? tile : num_larger); }
  size_t count(size_t tile) const { return least + (tile < num_larger ? 1 : 0); }
};

}  // namespace
}  // namespace millrace
