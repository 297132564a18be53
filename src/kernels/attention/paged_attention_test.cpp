#include "kernels/attention/paged_attention.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/math.h"
#include "kernels/attention/kv_test_data.h"
#include "kernels/attention/write_kv.h"
#include "kernels/test_data.h"

namespace millrace {
namespace {

struct Shape {
  size_t num_heads;
  size_t num_kv_heads;
  size_t head_dim;
  size_t block_size;
  DType dtype;
};

std::vector<Shape> shapes() {
  std::vector<Shape> shapes;
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    shapes.push_back({1, 1, 2, 16, dtype});
    shapes.push_back({3, 1, 8, 16, dtype});
    shapes.push_back({7, 1, 64, 16, dtype});
    shapes.push_back({8, 1, 10, 32, dtype});
    shapes.push_back({6, 3, 80, 48, dtype});
    shapes.push_back({5, 5, 128, 16, dtype});
    shapes.push_back({12, 1, 38, 16, dtype});
    shapes.push_back({2, 1, 256, 16, dtype});
  }
  return shapes;
}

// Sequences of a batch: the first `num_cached` tokens were computed before, the rest are queries.
struct Sequence {
  size_t num_cached;
  size_t num_queries;
};

// Two decodes and two prefill chunks, contexts at the edges of registers, blocks and tiles.
const std::vector<Sequence> kSequences = {{0, 17}, {99, 1}, {30, 5}, {15, 1}, {0, 1}, {60, 70}};

// The tokens of a sequence have their q, k and v from (sequence, position) alone.
float element(size_t kind, size_t sequence, size_t position, size_t index) {
  const uint64_t key = (kind * 1000 + sequence) * 1000 + position;
  return static_cast<float>(4.0 * random_unit(key, index) - 2.0);
}

class Batch {
 public:
  // `seed` shuffles the blocks; `which`: indices into kSequences.
  Batch(const Shape& shape, std::vector<size_t> which, uint64_t seed)
      : shape_(shape), which_(std::move(which)) {
    size_t num_blocks = 1;
    for (const size_t s : which_) {
      const Sequence& sequence = kSequences[s];
      const size_t context = sequence.num_cached + sequence.num_queries;
      blocks_max_ = std::max(blocks_max_, div_ceil(context, shape.block_size));
      context_max_ = std::max(context_max_, context);
    }
    num_blocks += which_.size() * blocks_max_;
    cache_ = std::make_unique<TestKvCache>(KvView{
        .dtype = shape.dtype,
        .num_blocks = num_blocks,
        .block_size = shape.block_size,
        .num_kv_heads = shape.num_kv_heads,
        .head_dim = shape.head_dim});
    make_tables(num_blocks, seed);
    for (size_t i = 0; i < which_.size(); ++i) fill(i);
    for (size_t i = 0; i < which_.size(); ++i) add_queries(i);
  }

  std::vector<float> attend(const Executor& executor) {
    const size_t width = shape_.num_heads * shape_.head_dim;
    std::vector<float> out(q_.size());
    std::vector<float> scratch(paged_attention_scratch_size(
        executor.pool.num_threads(), shape_.num_heads / shape_.num_kv_heads, context_max_
    ));
    paged_attention(
        executor,
        {.q = rows_of(q_, width),
         .num_heads = shape_.num_heads,
         .cache = cache_->view(),
         .positions = positions_,
         .cu_seqlens = cu_seqlens_,
         .block_tables = tables_,
         .blocks_per_sequence_max = blocks_max_,
         .scratch = scratch,
         .out = rows_of(out, width)}
    );
    return out;
  }

 private:
  void make_tables(size_t num_blocks, uint64_t seed) {
    std::vector<int32_t> blocks(num_blocks);
    for (size_t i = 0; i < num_blocks; ++i) blocks[i] = static_cast<int32_t>(i);
    Rng rng(seed);
    for (size_t i = num_blocks - 1; i > 0; --i) std::swap(blocks[i], blocks[rng.below(i + 1)]);
    tables_.assign(blocks.begin(), blocks.end() - 1);
  }

  // Writes the keys and values of a sequence's whole context: rope is none at position 0.
  void fill(size_t i) {
    ThreadPool pool(1);
    const RopeTable rope = *RopeTable::make(
        {.head_dim = shape_.head_dim, .theta = 1.0, .scaling = std::nullopt, .num_positions = 1},
        pool
    );
    const Sequence& sequence = kSequences[which_[i]];
    for (size_t position = 0; position < sequence.num_cached + sequence.num_queries; ++position) {
      std::vector<float> kv(2 * shape_.num_kv_heads * shape_.head_dim);
      for (size_t e = 0; e < kv.size(); ++e) kv[e] = element(1, which_[i], position, e);
      const int32_t block = tables_[i * blocks_max_ + position / shape_.block_size];
      const std::vector<int32_t> slots = {static_cast<int32_t>(
          static_cast<size_t>(block) * shape_.block_size + position % shape_.block_size
      )};
      const std::vector<int32_t> unrotated = {0};
      write_kv(
          {Isa::kReference, pool},
          {.qkv = rows_of(kv, kv.size()),
           .num_heads = 0,
           .q_norm = {},
           .k_norm = {},
           .rope = rope,
           .positions = unrotated,
           .slots = slots,
           .cache = cache_->view()}
      );
    }
  }

  void add_queries(size_t i) {
    const Sequence& sequence = kSequences[which_[i]];
    for (size_t n = 0; n < sequence.num_queries; ++n) {
      const size_t position = sequence.num_cached + n;
      positions_.push_back(static_cast<int32_t>(position));
      for (size_t e = 0; e < shape_.num_heads * shape_.head_dim; ++e) {
        q_.push_back(element(0, which_[i], position, e));
      }
    }
    cu_seqlens_.push_back(static_cast<int32_t>(positions_.size()));
  }

  Shape shape_;
  std::vector<size_t> which_;
  std::unique_ptr<TestKvCache> cache_;
  size_t blocks_max_ = 0;
  size_t context_max_ = 0;
  std::vector<int32_t> tables_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> cu_seqlens_ = {0};
  std::vector<float> q_;
};

std::vector<size_t> all_sequences() {
  return {0, 1, 2, 3, 4, 5};
}

// Softmax attention in double precision, from the definition.
std::vector<double> exact_attention(
    const Shape& shape, size_t sequence, size_t position, size_t head
) {
  const size_t kv_head = head / (shape.num_heads / shape.num_kv_heads);
  const size_t value_begin = shape.num_kv_heads * shape.head_dim;
  std::vector<double> weights;
  double total = 0.0;
  for (size_t p = 0; p <= position; ++p) {
    double score = 0.0;
    for (size_t d = 0; d < shape.head_dim; ++d) {
      const float key =
          rounded_to(shape.dtype, element(1, sequence, p, kv_head * shape.head_dim + d));
      score += static_cast<double>(element(0, sequence, position, head * shape.head_dim + d)) *
               static_cast<double>(key);
    }
    weights.push_back(std::exp(score / std::sqrt(static_cast<double>(shape.head_dim))));
    total += weights.back();
  }
  std::vector<double> out(shape.head_dim, 0.0);
  for (size_t p = 0; p <= position; ++p) {
    for (size_t d = 0; d < shape.head_dim; ++d) {
      const float value = rounded_to(
          shape.dtype, element(1, sequence, p, value_begin + kv_head * shape.head_dim + d)
      );
      out[d] += weights[p] / total * static_cast<double>(value);
    }
  }
  return out;
}

TEST(PagedAttention, IsCausalSoftmaxAttentionInDoublePrecision) {
  ThreadPool pool(1);
  for (const Shape& shape : shapes()) {
    Batch batch(shape, all_sequences(), 1);
    const std::vector<float> out = batch.attend({Isa::kReference, pool});
    size_t row = 0;
    for (size_t s = 0; s < kSequences.size(); ++s) {
      for (size_t n = 0; n < kSequences[s].num_queries; ++n, ++row) {
        if (n % 8 != 0) continue;  // each takes a while
        for (size_t head = 0; head < shape.num_heads; ++head) {
          const std::vector<double> exact =
              exact_attention(shape, s, kSequences[s].num_cached + n, head);
          for (size_t d = 0; d < shape.head_dim; ++d) {
            const size_t index = (row * shape.num_heads + head) * shape.head_dim + d;
            ASSERT_NEAR(out[index], exact[d], 2e-5) << "sequence " << s << " token " << n;
          }
        }
      }
    }
  }
}

TEST(PagedAttention, HasTheSameBitsOnEveryInstructionSetAndThreadCount) {
  ThreadPool one(1);
  ThreadPool three(3);
  for (const Shape& shape : shapes()) {
    Batch batch(shape, all_sequences(), 1);
    const std::vector<uint32_t> expected = bits_of(batch.attend({Isa::kReference, one}));
    for (const Isa isa : supported_isas()) {
      ASSERT_EQ(bits_of(batch.attend({isa, one})), expected) << name_of(isa);
      ASSERT_EQ(bits_of(batch.attend({isa, three})), expected) << name_of(isa);
    }
  }
}

TEST(PagedAttention, DependsNeitherOnNeighboursNorOnWhereBlocksLie) {
  ThreadPool pool(2);
  for (const Shape& shape : shapes()) {
    const size_t width = shape.num_heads * shape.head_dim;
    Batch together(shape, all_sequences(), 1);
    const std::vector<float> expected = together.attend({best_isa(), pool});
    size_t begin = 0;
    for (size_t s = 0; s < kSequences.size(); ++s) {
      Batch alone(shape, {s}, 100 + s);
      const size_t size = kSequences[s].num_queries * width;
      ASSERT_EQ(
          bits_of(alone.attend({best_isa(), pool})),
          bits_of(std::span(expected).subspan(begin, size))
      );
      begin += size;
    }
  }
}

}  // namespace
}  // namespace millrace
