#include "cuda/kernels/attention_wide.h"

#include <gtest/gtest.h>

#include <limits>

#include "cuda/kernels/paged_attention_test_data.h"

namespace millrace::cuda {
namespace {

// Groups that do and do not divide a tile, and one of as many rows as it has.
const AttentionShape kShapes[] = {
    {14, 2, 64, 16},
    {28, 4, 128, 16},
    {5, 5, 128, 7},
    {3, 1, 64, 48},
    {128, 1, 64, 16},
    {8, 4, 128, 32}};

// Decodes and prefill chunks, contexts at the edges of tiles, halves and splits; more tiles than a
// device has multiprocessors.
const std::vector<AttentionSequence> kSequences = {
    {0, 0, 9},
    {1, 99, 1},
    {2, 30, 5},
    {3, 127, 1},
    {4, 128, 1},
    {5, 250, 10},
    {6, 255, 1},
    {7, 256, 1},
    {8, 600, 3},
    {9, 383, 2},
    {10, 0, 300},
    {11, 510, 140},
    {12, 2000, 70},
    {13, 0, 1100},
    {14, 700, 1},
    {15, 0, 1}};

// Whether a prompt is one with a token is asked here: wgmma's bits are those of mma.sync.
void expect_bits_of_walk(const AttentionBatch& batch) {
  const std::vector<uint16_t> walked = batch.attend(AttentionWay::kWalk);
  const std::vector<uint16_t> wide = batch.attend(AttentionWay::kWide);
  const auto differs = std::mismatch(wide.begin(), wide.end(), walked.begin()).first;
  ASSERT_EQ(differs, wide.end()) << "element " << differs - wide.begin();
}

TEST(AttentionWide, GivesTheBitsOfTheWalk) {
  for (const AttentionShape& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << shape.num_heads << ", " << shape.head_dim);
    ASSERT_TRUE(is_for_attention_wide(shape.head_dim));
    AttentionBatch batch(shape, kSequences, 1);
    expect_bits_of_walk(batch);
    batch.add_empty_tiles(200);
    expect_bits_of_walk(batch);
  }
}

TEST(AttentionWide, IsForHeadsOf64And128Dimensions) {
  EXPECT_FALSE(is_for_attention_wide(32));
  EXPECT_FALSE(is_for_attention_wide(96));
  EXPECT_FALSE(is_for_attention_wide(256));
}

// Scores far apart, so that weights are denormal or zero; beyond the largest float; below the
// smallest; no numbers.
TEST(AttentionWide, TakesScoresOfAnySize) {
  for (const float scale : {30.0F, 1e4F, 1e30F, -1e30F, std::numeric_limits<float>::quiet_NaN()}) {
    const ElementFunction element_of =
        [&](AttentionInput kind, uint64_t id, size_t position, size_t i) {
          const uint16_t value = attention_element(kind, id, position, i);
          if (kind == AttentionInput::kValue) return value;
          if (std::isnan(scale)) return i == 5 && position % 37 == 20 ? narrowed(scale) : value;
          if (kind == AttentionInput::kQuery)
            return std::abs(scale) > 1e9F ? narrowed(1e30F) : value;
          return narrowed(std::abs(scale) > 1e9F ? scale : widened(value) * scale);
        };
    SCOPED_TRACE(testing::Message() << scale);
    expect_bits_of_walk(AttentionBatch({14, 2, 64, 16}, {{1, 0, 70}, {2, 290, 60}}, 1, element_of));
  }
}

// What comes after a tile's last position is no part of it, whatever it is.
TEST(AttentionWide, LooksNoFurtherThanItsRowsSee) {
  const ElementFunction element_of = [](AttentionInput kind, uint64_t id, size_t position, size_t i
                                     ) {
    const bool is_infinite = kind != AttentionInput::kQuery && position >= 128;
    return is_infinite ? narrowed(INFINITY) : attention_element(kind, id, position, i);
  };
  // Tiles of 128 tokens.
  const AttentionShape shape = {1, 1, 128, 16};
  const auto of_first_tokens = [&](size_t num_tokens) {
    std::vector<uint16_t> all =
        AttentionBatch(shape, {{1, 0, num_tokens}}, 1, element_of).attend(AttentionWay::kWide);
    all.resize(128 * shape.head_dim);
    return all;
  };
  EXPECT_TRUE(of_first_tokens(256) == of_first_tokens(128));
}

TEST(AttentionWide, DoesNothingForNoTiles) {
  paged_attention_wide({}, {});
}

}  // namespace
}  // namespace millrace::cuda
