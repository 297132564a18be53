// Attention on made-up batches, by every kernel there is, and in double precision.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "base/math.h"
#include "cuda/kernels/attention_wide.h"
#include "cuda/kernels/cuda_test_data.h"
#include "cuda/kernels/paged_attention.h"

namespace millrace::cuda {

struct AttentionShape {
  size_t num_heads;
  size_t num_kv_heads;
  size_t head_dim;
  size_t block_size;

  size_t group() const { return num_heads / num_kv_heads; }
};

// A sequence of a batch: the first `num_cached` tokens were computed before, the rest are queries.
// Its q, k and v follow from `id` and the position alone.
struct AttentionSequence {
  uint64_t id;
  size_t num_cached;
  size_t num_queries;

  size_t context() const { return num_cached + num_queries; }
};

enum class AttentionInput { kQuery, kKey, kValue };

// Uniform in [-2, 2), rounded to bfloat16.
inline uint16_t attention_element(
    AttentionInput kind, uint64_t sequence, size_t position, size_t index
) {
  const uint64_t key = (static_cast<uint64_t>(kind) * 1000 + sequence) * 100000 + position;
  return narrowed(static_cast<float>(4.0 * random_unit(key, index) - 2.0));
}

// Makes the elements of tokens.
using ElementFunction = std::function<uint16_t(AttentionInput, uint64_t, size_t, size_t)>;

// kTwoBlocks: for all splits of a tile and head. kWide: where is_for_attention_wide().
enum class AttentionWay { kWalk, kSplits, kTwoBlocks, kWide };

class AttentionBatch {
 public:
  // `seed` shuffles the blocks.
  AttentionBatch(
      const AttentionShape& shape,
      std::vector<AttentionSequence> sequences,
      uint64_t seed,
      ElementFunction element_of = attention_element
  )
      : shape_(shape), sequences_(std::move(sequences)), element_of_(std::move(element_of)) {
    size_t num_blocks = 1;
    for (const AttentionSequence& sequence : sequences_) {
      num_blocks += div_ceil(sequence.context(), shape.block_size);
      blocks_max_ = std::max(blocks_max_, div_ceil(sequence.context(), shape.block_size));
      context_max_ = std::max(context_max_, sequence.context());
    }
    const size_t size = num_blocks * shape.num_kv_heads * shape.block_size * shape.head_dim;
    keys_.assign(size, 0xFFFF);  // NaN, where nobody wrote
    values_.assign(size, 0xFFFF);
    make_tables(num_blocks, seed);
    for (size_t i = 0; i < sequences_.size(); ++i) fill(i);
    for (const AttentionSequence& sequence : sequences_) add_queries(sequence);
    tiles_ = attention_tiles(cu_seqlens_, shape.group());
    wide_tiles_ = wide_attention_tiles(cu_seqlens_, context_lens(), shape.group());
  }

  // Tiles that only fill a grid.
  void add_empty_tiles(size_t count) {
    tiles_.insert(tiles_.begin(), count, AttentionTile{});
    wide_tiles_.insert(wide_tiles_.end(), count, AttentionTile{});
  }

  // [num_tokens, num_heads * head_dim], bfloat16.
  std::vector<uint16_t> attend(AttentionWay way) const {
    const DeviceArray<uint16_t> q(q_);
    const DeviceArray<uint16_t> keys(keys_);
    const DeviceArray<uint16_t> values(values_);
    const DeviceArray<int32_t> positions(positions_);
    const DeviceArray<int32_t> cu_seqlens(cu_seqlens_);
    const DeviceArray<int32_t> tables(tables_);
    const std::vector<AttentionTile>& tiles_of_way =
        way == AttentionWay::kWide ? wide_tiles_ : tiles_;
    const DeviceArray<AttentionTile> tiles(tiles_of_way);
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
        .num_tiles = tiles_of_way.size(),
        .out = out.data()};
    if (way == AttentionWay::kWalk || way == AttentionWay::kWide) {
      way == AttentionWay::kWide ? paged_attention_wide({}, args) : paged_attention({}, args);
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
    if (way == AttentionWay::kTwoBlocks) left.num_blocks_wanted = 2 * zeros.size();
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
                 widened(element_of_(AttentionInput::kKey, id, p, kv_head * shape_.head_dim + d));
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
        result[d] += weight * widened(element_of_(AttentionInput::kValue, id, p, index));
      }
    }
    for (double& value : result) value /= sum;
    return result;
  }

  size_t num_tokens() const { return positions_.size(); }

 private:
  std::vector<int32_t> context_lens() const {
    std::vector<int32_t> lens;
    for (const AttentionSequence& sequence : sequences_) {
      lens.push_back(static_cast<int32_t>(sequence.context()));
    }
    return lens;
  }

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
        keys_[at] = element_of_(AttentionInput::kKey, sequences_[sequence].id, p, i);
        values_[at] = element_of_(AttentionInput::kValue, sequences_[sequence].id, p, i);
      }
    }
  }

  void add_queries(const AttentionSequence& sequence) {
    for (size_t p = sequence.num_cached; p < sequence.context(); ++p) {
      positions_.push_back(static_cast<int32_t>(p));
      for (size_t i = 0; i < shape_.num_heads * shape_.head_dim; ++i) {
        const float scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim));
        q_.push_back(
            narrowed(widened(element_of_(AttentionInput::kQuery, sequence.id, p, i)) * scale)
        );
      }
    }
    cu_seqlens_.push_back(static_cast<int32_t>(positions_.size()));
  }

  AttentionShape shape_;
  std::vector<AttentionSequence> sequences_;
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
  std::vector<AttentionTile> wide_tiles_;
};

}  // namespace millrace::cuda
