#include <gtest/gtest.h>

#include "cuda/kernels/wide_tiles.h"

namespace millrace::cuda {
namespace {

constexpr size_t kMultiprocessors = 132;

TEST(WideTiles, AreOfTheSizeWithWhichADeviceIsDoneFirst) {
  const auto tokens = [](size_t num_panels, size_t num_chunks, size_t num_tokens) {
    return tokens_of_wide_tile(num_panels, num_tokens, num_chunks, kMultiprocessors);
  };
  // Qwen2-7B: qkv, where 256 take two rounds and 192 two shorter ones; o and down, gate_up.
  EXPECT_EQ(tokens(288, 56, 1024), 192U);
  EXPECT_EQ(tokens(224, 56, 1024), 256U);
  EXPECT_EQ(tokens(224, 296, 1024), 256U);
  EXPECT_EQ(tokens(224, 296, 512), 128U);
  EXPECT_EQ(tokens(224, 296, 64), 64U);
  EXPECT_EQ(tokens(2368, 56, 1024), 256U);
  // Qwen2-0.5B: down has 56 panels.
  EXPECT_EQ(tokens(56, 76, 1024), 64U);
}

// One round of large tiles is better than two of small ones, and no tile is larger than it needs.
TEST(WideTiles, AreSmallWhereThereAreFewTokens) {
  for (size_t num_panels = 1; num_panels < 4000; num_panels += 37) {
    EXPECT_EQ(tokens_of_wide_tile(num_panels, 33, 14, kMultiprocessors), 64U);
    EXPECT_LE(tokens_of_wide_tile(num_panels, 128, 14, kMultiprocessors), 128U);
  }
}

TEST(TokenTiles, AreAsFarApartAsTheirStrideSays) {
  constexpr size_t kChunks = 5;
  for (const size_t num_tokens : {size_t{8}, size_t{32}, size_t{33}, size_t{300}}) {
    const size_t stride = token_tile_stride(kChunks, num_tokens);
    for (size_t tile = 0; tile + 1 < num_tokens / kTileTokens; ++tile) {
      const bool is_last_of_group = (tile + 1) % (kGroupTokens / kTileTokens) == 0;
      if (num_tokens > kFewTokens && is_last_of_group) continue;
      EXPECT_EQ(
          token_tile_chunk(tile + 1, 3, kChunks, num_tokens) -
              token_tile_chunk(tile, 3, kChunks, num_tokens),
          stride
      ) << tile
        << " of " << num_tokens;
    }
  }
}

}  // namespace
}  // namespace millrace::cuda
