#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cuda/kernels/paged_attention_test_data.h"
#include "cuda/kernels/thread_orders.h"

namespace millrace::cuda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Groups that do and do not divide a tile, and one beyond it; dimensions that do and do not fill
// sixteen bytes, a step, a chunk.
const AttentionShape kShapes[] = {
    {1, 1, 2, 16},
    {3, 1, 8, 16},
    {14, 2, 64, 16},
    {8, 1, 10, 32},
    {6, 3, 80, 48},
    {5, 5, 128, 16},
    {18, 1, 38, 16},
    {2, 1, 256, 16},
    {3, 1, 192, 7},
    {16, 1, 18, 16},
    {40, 2, 16, 16},
};

// Decodes and prefill chunks, contexts at the edges of products, blocks, tiles and splits.
const std::vector<AttentionSequence> kSequences = {
    {0, 0, 9},
    {1, 99, 1},
    {2, 30, 5},
    {3, 15, 1},
    {4, 0, 1},
    {5, 250, 10},
    {6, 255, 1},
    {7, 600, 3}};

TEST(PagedAttentionOnDevice, IsNearTheExactResultEitherWay) {
  for (const AttentionShape& shape : kShapes) {
    SCOPED_TRACE(
        testing::Message() << shape.num_heads << ", " << shape.num_kv_heads << ", "
                           << shape.head_dim
    );
    const AttentionBatch batch(shape, kSequences, 1);
    const auto walked =
        same_in_every_thread_order([&] { return batch.attend(AttentionWay::kWalk); });
    const auto split =
        same_in_every_thread_order([&] { return batch.attend(AttentionWay::kSplits); });
    ASSERT_TRUE(walked == split);
    const auto few =
        same_in_every_thread_order([&] { return batch.attend(AttentionWay::kTwoBlocks); });
    ASSERT_TRUE(few == split);
    const size_t num_rows = batch.num_tokens() * shape.num_heads;
    for (size_t row = 0; row < num_rows; row += 1 + row % 13) {  // some, of every head
      const std::vector<double> exact =
          batch.exact_row(row / shape.num_heads, row % shape.num_heads);
      for (size_t d = 0; d < shape.head_dim; ++d) {
        // Exponentials of 8 bits, and values below 2.
        ASSERT_NEAR(widened(walked[row * shape.head_dim + d]), exact[d], 0.012) << row << ", " << d;
      }
    }
  }
}

// Alone, in a batch, in other blocks, in chunks of every size: the same bits of every token.
TEST(PagedAttentionOnDevice, DependsOnTheSequenceAlone) {
  const AttentionShape shape = {6, 2, 24, 16};
  constexpr size_t kTokens = 270;
  const auto batch_of = [&](size_t begin, size_t end, uint64_t seed) {
    return AttentionBatch(shape, {{9, begin, end - begin}}, seed);
  };
  const std::vector<uint16_t> whole = batch_of(0, kTokens, 1).attend(AttentionWay::kWalk);
  const size_t width = shape.num_heads * shape.head_dim;
  const auto expect_part = [&](const std::vector<uint16_t>& part, size_t begin) {
    EXPECT_TRUE(std::equal(part.begin(), part.end(), &whole[begin * width])) << begin;
  };
  for (const size_t size : {1, 3, 16, 100, 256}) {
    for (size_t begin = size < 16 ? 249 : 0; begin < kTokens; begin += size) {
      const size_t end = std::min(begin + size, kTokens);
      expect_part(batch_of(begin, end, size).attend(AttentionWay::kWalk), begin);
      expect_part(batch_of(begin, end, size + 1).attend(AttentionWay::kSplits), begin);
    }
  }
  const std::vector<uint16_t> together =
      AttentionBatch(shape, {{8, 3, 5}, {9, 100, 70}, {7, 290, 1}}, 3)
          .attend(AttentionWay::kSplits);
  const std::vector<uint16_t> mine(
      together.begin() + static_cast<std::ptrdiff_t>(5 * width),
      together.begin() + static_cast<std::ptrdiff_t>(75 * width)
  );
  expect_part(mine, 100);
}

// More than a warp has lanes.
TEST(PagedAttentionOnDevice, MergesManySplits) {
  for (const size_t num_cached : {32 * kSplitPositions - 1, 32 * kSplitPositions, size_t{8999}}) {
    const AttentionBatch batch({3, 1, 16, 16}, {{1, num_cached, 2}}, 1);
    const std::vector<uint16_t> expected = batch.attend(AttentionWay::kWalk);
    for (const AttentionWay way : {AttentionWay::kSplits, AttentionWay::kTwoBlocks}) {
      EXPECT_TRUE(same_in_every_thread_order([&] { return batch.attend(way); }) == expected);
    }
  }
}

TEST(PagedAttentionOnDevice, TakesTilesThatOnlyFillAGrid) {
  const AttentionShape shape = {4, 2, 16, 16};
  AttentionBatch batch(shape, {{1, 20, 3}, {2, 300, 1}}, 1);
  const std::vector<uint16_t> expected = batch.attend(AttentionWay::kWalk);
  batch.add_empty_tiles(3);
  EXPECT_TRUE(batch.attend(AttentionWay::kWalk) == expected);
  EXPECT_TRUE(batch.attend(AttentionWay::kSplits) == expected);
}

// Scores beyond the largest float are equal; where all are below the smallest, nothing is seen.
TEST(PagedAttentionOnDevice, TakesScoresOfAnySize) {
  for (const float sign : {1.0F, -1.0F}) {
    const ElementFunction element_of = [&](AttentionInput kind, uint64_t, size_t position, size_t) {
      if (kind == AttentionInput::kQuery) return narrowed(1e30F);
      if (kind == AttentionInput::kKey) return narrowed(sign * 1e30F);
      return narrowed(static_cast<float>(position % 2));
    };
    const AttentionBatch batch({2, 1, 16, 16}, {{1, 299, 1}}, 1, element_of);
    for (const AttentionWay way : {AttentionWay::kWalk, AttentionWay::kSplits}) {
      for (const uint16_t value : batch.attend(way)) {
        EXPECT_EQ(widened(value), sign > 0.0F ? 0.5F : 0.0F);
      }
    }
  }
}

// What is infinite is so for those who see it: what comes after the last position is no part of it.
TEST(PagedAttentionOnDevice, TakesInfiniteValues) {
  const ElementFunction element_of =
      [](AttentionInput kind, uint64_t sequence, size_t position, size_t i) {
        const bool is_infinite =
            kind == AttentionInput::kValue && (position == 20 || position == 305) && i < 9;
        return is_infinite ? narrowed(INFINITY) : attention_element(kind, sequence, position, i);
      };
  for (const size_t head_dim : {10, 24, 64}) {
    const AttentionBatch batch({3, 1, head_dim, 16}, {{1, 0, 21}, {2, 299, 7}}, 1, element_of);
    const std::vector<uint16_t> walked = batch.attend(AttentionWay::kWalk);
    EXPECT_TRUE(walked == batch.attend(AttentionWay::kSplits));
    const size_t last = (batch.num_tokens() - 1) * 3 * head_dim;
    for (const size_t at : {20 * 3 * head_dim, last}) {
      EXPECT_EQ(widened(walked[at]), INFINITY);
      EXPECT_TRUE(std::isfinite(widened(walked[at + 9])));
    }
  }
}

TEST(AttentionTiles, HoldSixteenRowsOfASequence) {
  const std::vector<int32_t> cu_seqlens = {0, 1, 1, 6};
  EXPECT_THAT(
      attention_tiles(cu_seqlens, 7),
      ElementsAre(
          AttentionTile{0, 0, 7},
          AttentionTile{2, 0, 16},
          AttentionTile{2, 16, 16},
          AttentionTile{2, 32, 3}
      )
  );
  EXPECT_THAT(attention_tiles(std::vector<int32_t>{0}, 7), IsEmpty());
}

// Those that see the same, in the order of their sequences.
TEST(AttentionTiles, ThatAreWideComeInTheOrderOfWhatTheySee) {
  const std::vector<int32_t> cu_seqlens = {0, 37, 38, 238, 238};
  const std::vector<int32_t> context_lens = {37, 300, 200};
  EXPECT_THAT(
      wide_attention_tiles(cu_seqlens, context_lens, 7),
      ElementsAre(
          AttentionTile{1, 0, 7},
          AttentionTile{2, 1280, 120},
          AttentionTile{2, 1152, 128},
          AttentionTile{2, 1024, 128},
          AttentionTile{2, 896, 128},
          AttentionTile{2, 768, 128},
          AttentionTile{2, 640, 128},
          AttentionTile{2, 512, 128},
          AttentionTile{2, 384, 128},
          AttentionTile{2, 256, 128},
          AttentionTile{0, 128, 128},
          AttentionTile{0, 256, 3},
          AttentionTile{2, 128, 128},
          AttentionTile{0, 0, 128},
          AttentionTile{2, 0, 128}
      )
  );
}

TEST(PagedAttentionOnDevice, DoesNothingForNoTiles) {
  paged_attention({}, {});
  paged_attention_in_splits({}, {}, {});
}

}  // namespace
}  // namespace millrace::cuda
