#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "base/math.h"
#include "cuda/kernels/cuda_test_data.h"
#include "cuda/kernels/paged_attention.h"
#include "cuda/kernels/thread_orders.h"

namespace millrace::cuda {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

struct Shape {
  size_t num_heads;
  size_t num_kv_heads;
  size_t head_dim;
  size_t block_size;

  size_t group() const { return num_heads / num_kv_heads; }
};

// Groups that do and do not divide a tile, and one beyond it; dimensions that do and do not fill
// sixteen bytes, a step, a chunk.
const Shape kShapes[] = {
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

// A sequence of a batch: the first `num_cached` tokens were computed before, the rest are queries.
// Its q, k and v follow from `id` and the position alone.
struct Sequence {
  uint64_t id;
  size_t num_cached;
  size_t num_queries;

  size_t context() const { return num_cached + num_queries; }
};

// Decodes and prefill chunks, contexts at the edges of products, blocks, tiles and splits.
const std::vector<Sequence> kSequences = {
    {0, 0, 9},
    {1, 99, 1},
    {2, 30, 5},
    {3, 15, 1},
    {4, 0, 1},
    {5, 250, 10},
    {6, 255, 1},
    {7, 600, 3}};

enum class Kind { kQuery, kKey, kValue };

// Uniform in [-2, 2), rounded to bfloat16.
uint16_t element(Kind kind, uint64_t sequence, size_t position, size_t index) {
  const uint64_t key = (static_cast<uint64_t>(kind) * 1000 + sequence) * 100000 + position;
  return narrowed(static_cast<float>(4.0 * random_unit(key, index) - 2.0));
}

// Makes the elements of tokens.
using ElementFunction = std::function<uint16_t(Kind, uint64_t, size_t, size_t)>;

enum class Way { kWalk, kSplits, kTwoBlocks };  // the last: for all splits of a tile and head

class Batch {
 public:
  // `seed` shuffles the blocks.
  Batch(
      const Shape& shape,
      std::vector<Sequence> sequences,
      uint64_t seed,
      ElementFunction element_of = element
  )
      : shape_(shape), sequences_(std::move(sequences)), element_of_(std::move(element_of)) {
    size_t num_blocks = 1;
    for (const Sequence& sequence : sequences_) {
      num_blocks += div_ceil(sequence.context(), shape.block_size);
      blocks_max_ = std::max(blocks_max_, div_ceil(sequence.context(), shape.block_size));
      context_max_ = std::max(context_max_, sequence.context());
    }
    const size_t size = num_blocks * shape.num_kv_heads * shape.block_size * shape.head_dim;
    keys_.assign(size, 0xFFFF);  // NaN, where nobody wrote
    values_.assign(size, 0xFFFF);
    make_tables(num_blocks, seed);
    for (size_t i = 0; i < sequences_.size(); ++i) fill(i);
    for (const Sequence& sequence : sequences_) add_queries(sequence);
    tiles_ = attention_tiles(cu_seqlens_, shape.group());
  }

  // Tiles that only fill a grid.
  void add_empty_tiles(size_t count) { tiles_.insert(tiles_.begin(), count, AttentionTile{}); }

  // [num_tokens, num_heads * head_dim], bfloat16.
  std::vector<uint16_t> attend(Way way) const {
    const DeviceArray<uint16_t> q(q_);
    const DeviceArray<uint16_t> keys(keys_);
    const DeviceArray<uint16_t> values(values_);
    const DeviceArray<int32_t> positions(positions_);
    const DeviceArray<int32_t> cu_seqlens(cu_seqlens_);
    const DeviceArray<int32_t> tables(tables_);
    const DeviceArray<AttentionTile> tiles(tiles_);
    const size_t width = shape_.num_heads * shape_.head_dim;
    const size_t num_tokens = q_.size() / width;
    const DeviceArray<uint16_t> out(num_token_elements(num_tokens, width));
    const PagedAttentionArgs args = {
        .q = q.data(),
        .num_tokens = num_tokens,
        .num_heads = shape_.num_heads,
        .cache =
            {.keys = keys.data(),
             .values = values.data(),
             .num_kv_heads = shape_.num_kv_heads,
             .block_size = shape_.block_size,
             .head_dim = shape_.head_dim},
        .positions = positions.data(),
        .cu_seqlens = cu_seqlens.data(),
        .block_tables = tables.data(),
        .blocks_per_sequence_max = blocks_max_,
        .tiles = tiles.data(),
        .num_tiles = tiles_.size(),
        .out = out.data()};
    if (way == Way::kWalk) {
      paged_attention({}, args);
      return token_rows(out.read(), num_tokens, width);
    }
    const size_t num_splits = div_ceil(context_max_, kSplitPositions);
    const DeviceArray<float> partials(
        attention_partials_size(tiles_.size(), num_splits, shape_.num_kv_heads, shape_.head_dim)
    );
    const std::vector<uint32_t> zeros(tiles_.size() * shape_.num_kv_heads, 0);
    const DeviceArray<uint32_t> counters(zeros);
    AttentionPartials left = {
        .num_splits_max = num_splits, .memory = partials.data(), .counters = counters.data()};
    if (way == Way::kTwoBlocks) left.num_blocks_wanted = 2 * zeros.size();
    paged_attention_in_splits({}, args, left);
    EXPECT_EQ(counters.read(), zeros);
    return token_rows(out.read(), num_tokens, width);
  }

  // One row of the result, from the same rounded numbers in double precision.
  std::vector<double> exact_row(size_t token, size_t head) const {
    size_t sequence = 0;
    while (static_cast<size_t>(cu_seqlens_[sequence + 1]) <= token) ++sequence;
    const uint64_t id = sequences_[sequence].id;
    const auto position = static_cast<size_t>(positions_[token]);
    const size_t kv_head = head / shape_.group();
    std::vector<double> scores;
    for (size_t p = 0; p <= position; ++p) {
      double score = 0.0;
      for (size_t d = 0; d < shape_.head_dim; ++d) {
        score += double{widened(q_[(token * shape_.num_heads + head) * shape_.head_dim + d])} *
                 widened(element_of_(Kind::kKey, id, p, kv_head * shape_.head_dim + d));
      }
      scores.push_back(score);
    }
    const double maximum = *std::max_element(scores.begin(), scores.end());
    double sum = 0.0;
    std::vector<double> result(shape_.head_dim, 0.0);
    for (size_t p = 0; p <= position; ++p) {
      const double weight = std::exp(scores[p] - maximum);
      sum += weight;
      for (size_t d = 0; d < shape_.head_dim; ++d) {
        const size_t index = kv_head * shape_.head_dim + d;
        result[d] += weight * widened(element_of_(Kind::kValue, id, p, index));
      }
    }
    for (double& value : result) value /= sum;
    return result;
  }

  size_t num_tokens() const { return positions_.size(); }

 private:
  void make_tables(size_t num_blocks, uint64_t seed) {
    std::vector<int32_t> blocks(num_blocks);
    std::iota(blocks.begin(), blocks.end(), 0);
    for (size_t i = num_blocks - 1; i > 0; --i) {
      std::swap(blocks[i], blocks[static_cast<size_t>(random_unit(seed, i) * double(i + 1))]);
    }
    // No block of anyone: reading it is far out of bounds.
    tables_.assign(sequences_.size() * blocks_max_, 1 << 30);
    size_t next = 0;
    for (size_t i = 0; i < sequences_.size(); ++i) {
      for (size_t b = 0; b < div_ceil(sequences_[i].context(), shape_.block_size); ++b) {
        tables_[i * blocks_max_ + b] = blocks[next++];
      }
    }
  }

  void fill(size_t sequence) {
    for (size_t p = 0; p < sequences_[sequence].context(); ++p) {
      const auto block =
          static_cast<size_t>(tables_[sequence * blocks_max_ + p / shape_.block_size]);
      for (size_t i = 0; i < shape_.num_kv_heads * shape_.head_dim; ++i) {
        const size_t row = (block * shape_.num_kv_heads + i / shape_.head_dim) * shape_.block_size +
                           p % shape_.block_size;
        const size_t at = row * shape_.head_dim + i % shape_.head_dim;
        keys_[at] = element_of_(Kind::kKey, sequences_[sequence].id, p, i);
        values_[at] = element_of_(Kind::kValue, sequences_[sequence].id, p, i);
      }
    }
  }

  void add_queries(const Sequence& sequence) {
    for (size_t p = sequence.num_cached; p < sequence.context(); ++p) {
      positions_.push_back(static_cast<int32_t>(p));
      for (size_t i = 0; i < shape_.num_heads * shape_.head_dim; ++i) {
        const float scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim));
        q_.push_back(narrowed(widened(element_of_(Kind::kQuery, sequence.id, p, i)) * scale));
      }
    }
    cu_seqlens_.push_back(static_cast<int32_t>(positions_.size()));
  }

  Shape shape_;
  std::vector<Sequence> sequences_;
  ElementFunction element_of_;
  size_t blocks_max_ = 0;
  size_t context_max_ = 0;
  std::vector<uint16_t> q_;
  std::vector<uint16_t> keys_;
  std::vector<uint16_t> values_;
  std::vector<int32_t> tables_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> cu_seqlens_ = {0};
  std::vector<AttentionTile> tiles_;
};

TEST(PagedAttentionOnDevice, IsNearTheExactResultEitherWay) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(
        testing::Message() << shape.num_heads << ", " << shape.num_kv_heads << ", "
                           << shape.head_dim
    );
    const Batch batch(shape, kSequences, 1);
    const auto walked = same_in_every_thread_order([&] { return batch.attend(Way::kWalk); });
    const auto split = same_in_every_thread_order([&] { return batch.attend(Way::kSplits); });
    ASSERT_TRUE(walked == split);
    const auto few = same_in_every_thread_order([&] { return batch.attend(Way::kTwoBlocks); });
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
  const Shape shape = {6, 2, 24, 16};
  constexpr size_t kTokens = 270;
  const auto batch_of = [&](size_t begin, size_t end, uint64_t seed) {
    return Batch(shape, {{9, begin, end - begin}}, seed);
  };
  const std::vector<uint16_t> whole = batch_of(0, kTokens, 1).attend(Way::kWalk);
  const size_t width = shape.num_heads * shape.head_dim;
  const auto expect_part = [&](const std::vector<uint16_t>& part, size_t begin) {
    EXPECT_TRUE(std::equal(part.begin(), part.end(), &whole[begin * width])) << begin;
  };
  for (const size_t size : {1, 3, 16, 100, 256}) {
    for (size_t begin = size < 16 ? 249 : 0; begin < kTokens; begin += size) {
      const size_t end = std::min(begin + size, kTokens);
      expect_part(batch_of(begin, end, size).attend(Way::kWalk), begin);
      expect_part(batch_of(begin, end, size + 1).attend(Way::kSplits), begin);
    }
  }
  const std::vector<uint16_t> together =
      Batch(shape, {{8, 3, 5}, {9, 100, 70}, {7, 290, 1}}, 3).attend(Way::kSplits);
  const std::vector<uint16_t> mine(
      together.begin() + static_cast<std::ptrdiff_t>(5 * width),
      together.begin() + static_cast<std::ptrdiff_t>(75 * width)
  );
  expect_part(mine, 100);
}

// More than a warp has lanes.
TEST(PagedAttentionOnDevice, MergesManySplits) {
  for (const size_t num_cached : {32 * kSplitPositions - 1, 32 * kSplitPositions, size_t{8999}}) {
    const Batch batch({3, 1, 16, 16}, {{1, num_cached, 2}}, 1);
    const std::vector<uint16_t> expected = batch.attend(Way::kWalk);
    for (const Way way : {Way::kSplits, Way::kTwoBlocks}) {
      EXPECT_TRUE(same_in_every_thread_order([&] { return batch.attend(way); }) == expected);
    }
  }
}

TEST(PagedAttentionOnDevice, TakesTilesThatOnlyFillAGrid) {
  const Shape shape = {4, 2, 16, 16};
  Batch batch(shape, {{1, 20, 3}, {2, 300, 1}}, 1);
  const std::vector<uint16_t> expected = batch.attend(Way::kWalk);
  batch.add_empty_tiles(3);
  EXPECT_TRUE(batch.attend(Way::kWalk) == expected);
  EXPECT_TRUE(batch.attend(Way::kSplits) == expected);
}

// Scores beyond the largest float are equal; where all are below the smallest, nothing is seen.
TEST(PagedAttentionOnDevice, TakesScoresOfAnySize) {
  for (const float sign : {1.0F, -1.0F}) {
    const ElementFunction element_of = [&](Kind kind, uint64_t, size_t position, size_t) {
      if (kind == Kind::kQuery) return narrowed(1e30F);
      if (kind == Kind::kKey) return narrowed(sign * 1e30F);
      return narrowed(static_cast<float>(position % 2));
    };
    const Batch batch({2, 1, 16, 16}, {{1, 299, 1}}, 1, element_of);
    for (const Way way : {Way::kWalk, Way::kSplits}) {
      for (const uint16_t value : batch.attend(way)) {
        EXPECT_EQ(widened(value), sign > 0.0F ? 0.5F : 0.0F);
      }
    }
  }
}

// What is infinite is so for those who see it: what comes after the last position is no part of it.
TEST(PagedAttentionOnDevice, TakesInfiniteValues) {
  const ElementFunction element_of = [](Kind kind, uint64_t sequence, size_t position, size_t i) {
    const bool is_infinite = kind == Kind::kValue && (position == 20 || position == 305) && i < 9;
    return is_infinite ? narrowed(INFINITY) : element(kind, sequence, position, i);
  };
  for (const size_t head_dim : {10, 24, 64}) {
    const Batch batch({3, 1, head_dim, 16}, {{1, 0, 21}, {2, 299, 7}}, 1, element_of);
    const std::vector<uint16_t> walked = batch.attend(Way::kWalk);
    EXPECT_TRUE(walked == batch.attend(Way::kSplits));
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

TEST(PagedAttentionOnDevice, DoesNothingForNoTiles) {
  paged_attention({}, {});
  paged_attention_in_splits({}, {}, {});
}

}  // namespace
}  // namespace millrace::cuda
