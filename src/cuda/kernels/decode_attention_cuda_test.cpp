// A decode's attention in one kernel against the two that do the same: the same bits, in and out of
// the cache.
#include <gtest/gtest.h>

#include <cmath>

#include "base/math.h"
#include "cuda/kernels/cuda_test_data.h"
#include "cuda/kernels/paged_attention.h"
#include "cuda/kernels/thread_orders.h"
#include "kernels/rope.h"

namespace millrace::cuda {
namespace {

constexpr size_t kBlockSize = 16;
constexpr size_t kNumKvHeads = 2;
constexpr size_t kNumPositions = 700;
// Tokens with the new one: a first token, edges of a split, three splits.
const std::vector<size_t> kContexts = {1, 255, 256, 257, 700};

struct Shape {
  size_t group;
  size_t head_dim;
  bool has_q_norm;
  bool has_k_norm;
};

enum class Way { kTwoKernels, kOneKernel };

struct Results {
  std::vector<uint16_t> out;
  std::vector<uint16_t> keys;
  std::vector<uint16_t> values;
  friend bool operator==(const Results&, const Results&) = default;
};

// A token for each context, and two behind that belong to no sequence.
class Decode {
 public:
  explicit Decode(const Shape& shape) : shape_(shape) {
    const size_t num_tokens = kContexts.size() + kNumPadding;
    const size_t num_all = num_heads() + 2 * kNumKvHeads;
    qkv_ = random_floats(num_tokens * num_all * shape.head_dim, 1);
    q_norm_ = random_floats(shape.head_dim, 2);
    k_norm_ = random_floats(shape.head_dim, 3);
    ThreadPool pool(1);
    const RopeTable rope =
        *RopeTable::make({.head_dim = shape.head_dim, .num_positions = kNumPositions}, pool);
    rope_.assign(rope.data(), rope.data() + kNumPositions * shape.head_dim);
    make_tables();
    make_cache();
    for (const size_t context : kContexts) {
      cu_seqlens_.push_back(cu_seqlens_.back() + 1);
      positions_.push_back(static_cast<int32_t>(context - 1));
    }
    cu_seqlens_.resize(num_tokens + 1, cu_seqlens_.back());
    positions_.resize(num_tokens, 0);
    slots_.resize(num_tokens, 0);  // of the first block, which is nobody's
    tiles_ = attention_tiles(cu_seqlens_, shape.group);
    tiles_.resize(tiles_.size() + kNumPadding);
  }

  // `num_blocks`: for the splits of a tile and KV head, at most.
  Results attend(Way way, size_t num_blocks) const {
    const DeviceArray<float> qkv(qkv_);
    const DeviceArray<float> q_norm(q_norm_);
    const DeviceArray<float> k_norm(k_norm_);
    const DeviceArray<float> rope(rope_);
    const DeviceArray<uint16_t> keys(keys_);
    const DeviceArray<uint16_t> values(values_);
    const DeviceArray<int32_t> positions(positions_);
    const DeviceArray<int32_t> slots(slots_);
    const DeviceArray<int32_t> cu_seqlens(cu_seqlens_);
    const DeviceArray<int32_t> tables(tables_);
    const DeviceArray<AttentionTile> tiles(tiles_);
    const size_t width = num_heads() * shape_.head_dim;
    const DeviceArray<uint16_t> q(positions_.size() * width);
    const DeviceArray<uint16_t> out(num_token_elements(positions_.size(), width));
    const WriteKvArgs fresh = {
        .qkv = qkv.data(),
        .num_tokens = kContexts.size(),
        .num_heads = num_heads(),
        .q_norm = shape_.has_q_norm ? q_norm.data() : nullptr,
        .k_norm = shape_.has_k_norm ? k_norm.data() : nullptr,
        .norm_eps = 1e-6F,
        .rope = rope.data(),
        .positions = positions.data(),
        .slots = slots.data(),
        .cache =
            {.keys = keys.data(),
             .values = values.data(),
             .num_kv_heads = kNumKvHeads,
             .block_size = kBlockSize,
             .head_dim = shape_.head_dim},
        .q = way == Way::kTwoKernels ? q.data() : nullptr,
        .q_scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim))};
    const PagedAttentionArgs args = {
        .q = fresh.q,
        .num_tokens = fresh.num_tokens,
        .num_heads = num_heads(),
        .cache = fresh.cache,
        .positions = positions.data(),
        .cu_seqlens = cu_seqlens.data(),
        .block_tables = tables.data(),
        .blocks_per_sequence_max = kBlocksMax,
        .tiles = tiles.data(),
        .num_tiles = tiles_.size(),
        .out = out.data()};
    const size_t num_splits = div_ceil(kNumPositions, kSplitPositions);
    const DeviceArray<float> memory(
        attention_partials_size(tiles_.size(), num_splits, kNumKvHeads, shape_.head_dim)
    );
    const std::vector<uint32_t> zeros(tiles_.size() * kNumKvHeads, 0);
    const DeviceArray<uint32_t> counters(zeros);
    const AttentionPartials partials = {
        .num_splits_max = num_splits,
        .memory = memory.data(),
        .counters = counters.data(),
        .num_blocks_wanted = num_blocks * zeros.size()};
    if (way == Way::kOneKernel) {
      decode_attention({}, args, partials, fresh);
    } else {
      write_kv({}, fresh);
      paged_attention_in_splits({}, args, partials);
    }
    EXPECT_EQ(counters.read(), zeros);
    return {token_rows(out.read(), positions_.size(), width), keys.read(), values.read()};
  }

 private:
  static constexpr size_t kNumPadding = 2;
  static constexpr size_t kBlocksMax = (kNumPositions + kBlockSize - 1) / kBlockSize;

  size_t num_heads() const { return shape_.group * kNumKvHeads; }
  size_t num_blocks() const { return 1 + kContexts.size() * kBlocksMax; }

  // Block b of sequence s is one of every fifth, the last first.
  void make_tables() {
    for (size_t sequence = 0; sequence < kContexts.size(); ++sequence) {
      for (size_t block = 0; block < kBlocksMax; ++block) {
        const size_t index = 1 + (kBlocksMax - 1 - block) * kContexts.size() + sequence;
        tables_.push_back(static_cast<int32_t>(index));
      }
      const size_t position = kContexts[sequence] - 1;
      const auto block =
          static_cast<size_t>(tables_[sequence * kBlocksMax + position / kBlockSize]);
      slots_.push_back(static_cast<int32_t>(block * kBlockSize + position % kBlockSize));
    }
    tables_.resize(tables_.size() + kNumPadding * kBlocksMax, 1 << 30);
  }

  // NaN where the new tokens go.
  void make_cache() {
    const size_t size = num_blocks() * kNumKvHeads * kBlockSize * shape_.head_dim;
    keys_ = random_bfloat16(size, 4);
    values_ = random_bfloat16(size, 5);
    for (const int32_t slot : slots_) {
      const size_t block = static_cast<size_t>(slot) / kBlockSize;
      const size_t offset = static_cast<size_t>(slot) % kBlockSize;
      for (size_t head = 0; head < kNumKvHeads; ++head) {
        const size_t row = (block * kNumKvHeads + head) * kBlockSize + offset;
        for (size_t i = 0; i < shape_.head_dim; ++i) {
          keys_[row * shape_.head_dim + i] = 0xFFFF;
          values_[row * shape_.head_dim + i] = 0xFFFF;
        }
      }
    }
  }

  Shape shape_;
  std::vector<float> qkv_;
  std::vector<float> q_norm_;
  std::vector<float> k_norm_;
  std::vector<float> rope_;
  std::vector<uint16_t> keys_;
  std::vector<uint16_t> values_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> slots_;
  std::vector<int32_t> cu_seqlens_ = {0};
  std::vector<int32_t> tables_;
  std::vector<AttentionTile> tiles_;
};

bool has_nan(std::span<const uint16_t> values) {
  return std::ranges::any_of(values, [](uint16_t value) { return std::isnan(widened(value)); });
}

TEST(DecodeAttention, GivesTheBitsOfTwoKernels) {
  for (const size_t group : {1, 7, 18}) {
    for (const size_t head_dim : {64, 80, 128}) {
      for (const bool has_norms : {false, true}) {
        SCOPED_TRACE(testing::Message() << group << ", " << head_dim << ", " << has_norms);
        const Decode decode({group, head_dim, has_norms, has_norms});
        const Results expected = decode.attend(Way::kTwoKernels, 8);
        ASSERT_FALSE(has_nan(expected.keys) || has_nan(expected.values));
        const size_t num_elements = kContexts.size() * group * kNumKvHeads * head_dim;
        ASSERT_FALSE(has_nan(std::span(expected.out).first(num_elements)));
        for (const size_t num_blocks : {1, 2, 8}) {
          const Results found = same_in_every_thread_order([&] {
            return decode.attend(Way::kOneKernel, num_blocks);
          });
          EXPECT_TRUE(found.out == expected.out) << num_blocks;
          EXPECT_TRUE(found.keys == expected.keys) << num_blocks;
          EXPECT_TRUE(found.values == expected.values) << num_blocks;
        }
      }
    }
  }
}

TEST(DecodeAttention, TakesOneNormOfTheTwo) {
  for (const bool has_q_norm : {false, true}) {
    const Decode decode({3, 20, has_q_norm, !has_q_norm});
    EXPECT_TRUE(decode.attend(Way::kOneKernel, 8) == decode.attend(Way::kTwoKernels, 8));
  }
}

TEST(DecodeAttention, TakesTheLargestAndTheSmallestHeads) {
  for (const size_t head_dim : {2, 256}) {
    const Decode decode({16, head_dim, true, true});
    EXPECT_TRUE(decode.attend(Way::kOneKernel, 8) == decode.attend(Way::kTwoKernels, 8));
  }
}

TEST(DecodeAttention, DoesNothingForNoTiles) {
  decode_attention({}, {}, {}, {});
}

}  // namespace
}  // namespace millrace::cuda
