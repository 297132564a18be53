#include "kernels/token_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace millrace {
namespace {

size_t num_blocks(size_t num_tokens, size_t num_block_tokens) {
  return (num_tokens + num_block_tokens - 1) / num_block_tokens;
}

TEST(TokenBlocks, AreAsFewAsFitAndNearlyEqual) {
  for (const size_t num_tile_tokens : {1, 16}) {
    for (const size_t row_bytes : {100, 1000, 9728, 40000}) {
      const TokenBlocks blocks = {
          .num_bytes_max = 1 << 20, .num_tokens_max = 256, .num_tile_tokens = num_tile_tokens};
      const size_t fitting = std::min<size_t>(
          256, std::max<size_t>(1, (1 << 20) / row_bytes / num_tile_tokens) * num_tile_tokens
      );
      for (size_t num_tokens = 1; num_tokens < 700; ++num_tokens) {
        SCOPED_TRACE(num_tokens);
        const size_t each = blocks.num_tokens_of(num_tokens, row_bytes);
        ASSERT_EQ(each % num_tile_tokens, 0);
        ASSERT_LE(each, fitting);
        ASSERT_EQ(num_blocks(num_tokens, each), num_blocks(num_tokens, fitting));
        // One tile fewer would make one block more.
        if (each > num_tile_tokens) {
          ASSERT_GT(num_blocks(num_tokens, each - num_tile_tokens), num_blocks(num_tokens, each));
        }
      }
    }
  }
}

TEST(TokenBlocks, DealWhatWouldLeaveASmallRest) {
  const TokenBlocks blocks = {
      .num_bytes_max = 1 << 20, .num_tokens_max = 256, .num_tile_tokens = 16};
  EXPECT_EQ(blocks.num_tokens_of(128, 9728), 64);  // not 96 and 32
}

}  // namespace
}  // namespace millrace
