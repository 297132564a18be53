#include "kernels/attention/paged_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>

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
    shapes.push_back({16, 1, 18, 16, dtype});
  }
  return shapes;
}

// A sequence of a batch: the first `num_cached` tokens were computed before, the rest are queries.
// Its q, k and v follow from `id` and the position alone.
struct Sequence {
  uint64_t id;
  size_t num_cached;
  size_t num_queries;

  size_t context() const { return num_cached + num_queries; }
};

// Decodes and prefill chunks, contexts at the edges of registers, blocks, tiles and splits.
const std::vector<Sequence> kSequences = {
    {0, 0, 17}, {1, 99, 1}, {2, 30, 5}, {3, 15, 1}, {4, 0, 1}, {5, 239, 40}, {6, 255, 1}};

enum class Kind { kQuery, kKey, kValue };

// Uniform in [-2, 2).
float element(Kind kind, uint64_t sequence, size_t position, size_t index) {
  const uint64_t key = (static_cast<uint64_t>(kind) * 1000 + sequence) * 100000 + position;
  return static_cast<float>(4.0 * random_unit(key, index) - 2.0);
}

// Makes the elements of tokens.
using ElementFunction = std::function<float(Kind, uint64_t, size_t, size_t)>;

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
    for (const Sequence& sequence : sequences_) {
      blocks_max_ = std::max(blocks_max_, div_ceil(sequence.context(), shape.block_size));
      context_max_ = std::max(context_max_, sequence.context());
    }
    const size_t num_blocks = 1 + sequences_.size() * blocks_max_;
    cache_ = std::make_unique<TestKvCache>(KvView{
        .dtype = shape.dtype,
        .num_blocks = num_blocks,
        .block_size = shape.block_size,
        .num_kv_heads = shape.num_kv_heads,
        .head_dim = shape.head_dim});
    make_tables(num_blocks, seed);
    for (size_t i = 0; i < sequences_.size(); ++i) {
      fill(i);
      add_queries(sequences_[i]);
    }
  }

  std::vector<float> attend(const Executor& executor) {
    const size_t width = shape_.num_heads * shape_.head_dim;
    std::vector<float> out(q_.size());
    std::vector<float> scratch(paged_attention_scratch_size({
        .num_threads = executor.pool.num_threads(),
        .num_heads = shape_.num_heads,
        .num_kv_heads = shape_.num_kv_heads,
        .head_dim = shape_.head_dim,
        .context_max = context_max_,
    }));
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

  // Writes the keys and values of a sequence's whole context, unrotated: all at position 0.
  void fill(size_t i) {
    ThreadPool pool(1);
    const RopeTable rope = *RopeTable::make(
        {.head_dim = shape_.head_dim, .theta = 1.0, .scaling = std::nullopt, .num_positions = 1},
        pool
    );
    const size_t context = sequences_[i].context();
    const size_t size = shape_.num_kv_heads * shape_.head_dim;
    std::vector<float> kv;
    std::vector<int32_t> slots;
    for (size_t position = 0; position < context; ++position) {
      for (const Kind kind : {Kind::kKey, Kind::kValue}) {
        for (size_t e = 0; e < size; ++e) {
          kv.push_back(element_of_(kind, sequences_[i].id, position, e));
        }
      }
      const int32_t block = tables_[i * blocks_max_ + position / shape_.block_size];
      slots.push_back(static_cast<int32_t>(
          static_cast<size_t>(block) * shape_.block_size + position % shape_.block_size
      ));
    }
    write_kv(
        {Isa::kReference, pool},
        {.qkv = rows_of(kv, 2 * size),
         .num_heads = 0,
         .q_norm = {},
         .k_norm = {},
         .rope = rope,
         .positions = std::vector<int32_t>(context, 0),
         .slots = slots,
         .cache = cache_->view()}
    );
  }

  void add_queries(const Sequence& sequence) {
    for (size_t position = sequence.num_cached; position < sequence.context(); ++position) {
      positions_.push_back(static_cast<int32_t>(position));
      for (size_t e = 0; e < shape_.num_heads * shape_.head_dim; ++e) {
        q_.push_back(element_of_(Kind::kQuery, sequence.id, position, e));
      }
    }
    cu_seqlens_.push_back(static_cast<int32_t>(positions_.size()));
  }

  Shape shape_;
  std::vector<Sequence> sequences_;
  ElementFunction element_of_;
  std::unique_ptr<TestKvCache> cache_;
  size_t blocks_max_ = 0;
  size_t context_max_ = 0;
  std::vector<int32_t> tables_;
  std::vector<int32_t> positions_;
  std::vector<int32_t> cu_seqlens_ = {0};
  std::vector<float> q_;
};

// Of values in [-2, 2): rounding q and the weights to bfloat16 moves what they average.
double tolerance(DType dtype) {
  return dtype == DType::kBFloat16 ? 4e-3 : 1e-5;
}

// Softmax attention in double precision, from the definition, of a token's head.
std::vector<double> exact_attention(
    const Shape& shape, uint64_t sequence, size_t position, size_t head
) {
  const size_t kv_begin = head / (shape.num_heads / shape.num_kv_heads) * shape.head_dim;
  const auto kept = [&](Kind kind, size_t p, size_t d) {
    return static_cast<double>(rounded_to(shape.dtype, element(kind, sequence, p, kv_begin + d)));
  };
  std::vector<double> weights;
  double total = 0.0;
  for (size_t p = 0; p <= position; ++p) {
    double score = 0.0;
    for (size_t d = 0; d < shape.head_dim; ++d) {
      const float q = element(Kind::kQuery, sequence, position, head * shape.head_dim + d);
      score += static_cast<double>(q) * kept(Kind::kKey, p, d);
    }
    weights.push_back(std::exp(score / std::sqrt(static_cast<double>(shape.head_dim))));
    total += weights.back();
  }
  std::vector<double> out(shape.head_dim, 0.0);
  for (size_t p = 0; p <= position; ++p) {
    for (size_t d = 0; d < shape.head_dim; ++d) {
      out[d] += weights[p] / total * kept(Kind::kValue, p, d);
    }
  }
  return out;
}

TEST(PagedAttention, IsCausalSoftmaxAttentionInDoublePrecision) {
  ThreadPool pool(1);
  for (const Shape& shape : shapes()) {
    Batch batch(shape, kSequences, 1);
    const std::vector<float> out = batch.attend({best_isa(), pool});
    size_t row = 0;
    for (const Sequence& sequence : kSequences) {
      for (size_t n = 0; n < sequence.num_queries; ++n, ++row) {
        if (n % 8 != 0) continue;  // each takes a while
        for (size_t head = 0; head < shape.num_heads; ++head) {
          const std::vector<double> exact =
              exact_attention(shape, sequence.id, sequence.num_cached + n, head);
          for (size_t d = 0; d < shape.head_dim; ++d) {
            const size_t index = (row * shape.num_heads + head) * shape.head_dim + d;
            ASSERT_NEAR(out[index], exact[d], tolerance(shape.dtype))
                << "sequence " << sequence.id << " token " << n << ' ' << name_of(shape.dtype);
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
    Batch batch(shape, kSequences, 1);
    const std::vector<uint32_t> by_pairs = bits_of(batch.attend({Isa::kReference, one}));
    const std::vector<uint32_t> by_tiles = bits_of(batch.attend({Isa::kAmxReference, one}));
    for (const Isa isa : supported_isas()) {
      if (is_reference(isa)) continue;
      const auto& expected = reference_of(isa) == Isa::kReference ? by_pairs : by_tiles;
      for (const size_t hint_bytes : {0, 4096}) {
        ASSERT_EQ(bits_of(batch.attend({isa, one, hint_bytes})), expected) << name_of(isa);
        ASSERT_EQ(bits_of(batch.attend({isa, three, hint_bytes})), expected) << name_of(isa);
      }
    }
  }
}

TEST(PagedAttention, DependsNeitherOnNeighboursNorOnWhereBlocksLie) {
  ThreadPool pool(2);
  for (const Shape& shape : shapes()) {
    const size_t width = shape.num_heads * shape.head_dim;
    Batch together(shape, kSequences, 1);
    const std::vector<float> expected = together.attend({best_isa(), pool});
    size_t begin = 0;
    for (const Sequence& sequence : kSequences) {
      Batch alone(shape, {sequence}, 100 + sequence.id);
      const size_t size = sequence.num_queries * width;
      ASSERT_EQ(
          bits_of(alone.attend({best_isa(), pool})),
          bits_of(std::span(expected).subspan(begin, size))
      );
      begin += size;
    }
  }
}

TEST(PagedAttention, DependsNotOnHowAPromptIsCutIntoChunks) {
  ThreadPool pool(3);
  constexpr size_t kPrompt = 530;
  for (const Shape& shape : {
           Shape{7, 1, 64, 16, DType::kBFloat16},
           Shape{3, 3, 10, 32, DType::kBFloat16},
           Shape{6, 3, 80, 48, DType::kFloat32},
           Shape{5, 5, 128, 16, DType::kFloat16},
       }) {
    const size_t width = shape.num_heads * shape.head_dim;
    Batch whole(shape, {{7, 0, kPrompt}}, 1);
    const std::vector<float> expected = whole.attend({best_isa(), pool});
    for (const size_t chunk : {1, 5, 100, 257}) {
      // Small ones around the edge of a split only: each takes a while to prepare.
      for (size_t first = chunk < 16 ? 509 : 0; first < kPrompt; first += chunk) {
        const size_t size = std::min(chunk, kPrompt - first);
        Batch part(shape, {{7, first, size}}, first);
        ASSERT_EQ(
            bits_of(part.attend({best_isa(), pool})),
            bits_of(std::span(expected).subspan(first * width, size * width))
        ) << "tokens from "
          << first << ", " << size << " at once";
        if (first > 515 && chunk < 16) break;
      }
    }
  }
}

TEST(PagedAttention, SplitsLongContextsOverThreadsToTheSameBits) {
  ThreadPool one(1);
  const std::vector<Shape> shapes = {
      {14, 2, 64, 16, DType::kBFloat16},
      {7, 1, 80, 48, DType::kFloat32},
      {4, 4, 128, 32, DType::kFloat16},
  };
  for (const Shape& shape : shapes) {
    // A decode, some tokens to verify, and a short neighbour.
    Batch batch(shape, {{8, 5202, 1}, {9, 3070, 5}, {10, 40, 1}}, 3);
    const std::vector<float> by_pairs = batch.attend({Isa::kReference, one});
    const std::vector<float> by_tiles = batch.attend({Isa::kAmxReference, one});
    for (const size_t num_threads : {1, 2, 5, 16}) {
      ThreadPool pool(num_threads);
      for (const Isa isa : supported_isas()) {
        if (is_reference(isa)) continue;
        const auto& expected = reference_of(isa) == Isa::kReference ? by_pairs : by_tiles;
        ASSERT_EQ(bits_of(batch.attend({isa, pool})), bits_of(expected))
            << name_of(isa) << ' ' << num_threads;
      }
    }
    for (const size_t head : {0UL, shape.num_heads - 1}) {
      const std::vector<double> exact = exact_attention(shape, 8, 5202, head);
      for (size_t d = 0; d < shape.head_dim; ++d) {
        const size_t i = head * shape.head_dim + d;
        ASSERT_NEAR(by_pairs[i], exact[d], tolerance(shape.dtype));
        ASSERT_NEAR(by_tiles[i], exact[d], tolerance(shape.dtype));
      }
    }
  }
}

TEST(PagedAttention, NeverReadsWhatComesAfterAToken) {
  ThreadPool pool(2);
  constexpr size_t kLast = 41;
  const auto poisoned = [](Kind kind, uint64_t sequence, size_t position, size_t index) {
    const bool is_hidden = kind != Kind::kQuery && position > kLast;
    return is_hidden ? std::numeric_limits<float>::quiet_NaN()
                     : element(kind, sequence, position, index);
  };
  for (const Shape& shape : shapes()) {
    Batch clean(shape, {{11, 39, 3}}, 1);
    Batch followed(shape, {{11, 39, 20}}, 1, poisoned);
    for (const Isa isa : supported_isas()) {
      const std::vector<float> expected = clean.attend({isa, pool});
      const std::vector<float> found = followed.attend({isa, pool});
      ASSERT_EQ(bits_of(std::span(found).first(expected.size())), bits_of(expected))
          << name_of(isa);
    }
  }
}

TEST(PagedAttention, MakesNoNanOfScoresBeyondTheLargestFloat) {
  ThreadPool pool(2);
  for (const bool is_any_positive : {false, true}) {
    // Even keys point against the query, odd ones along it, or also against it.
    const auto huge = [=](Kind kind, uint64_t sequence, size_t position, size_t index) {
      if (kind == Kind::kValue) return element(kind, sequence, position, index);
      const bool is_along = is_any_positive && position % 2 == 1;
      return kind == Kind::kQuery || is_along ? -3e37F : 3e37F;
    };
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      Batch batch({7, 1, 64, 16, dtype}, {{12, 300, 3}}, 1, huge);
      const std::vector<float> expected = batch.attend({Isa::kReference, pool});
      double mean = 0.0;  // of the odd positions' values
      for (size_t p = 1; p < 300 && is_any_positive; p += 2) {
        mean += static_cast<double>(rounded_to(dtype, element(Kind::kValue, 12, p, 0))) / 150.0;
      }
      EXPECT_NEAR(expected[0], mean, 1e-6);
      for (const float x : expected) ASSERT_TRUE(std::isfinite(x));
      for (const Isa isa : supported_isas()) {
        const std::vector<float> out = batch.attend({isa, pool});
        if (reference_of(isa) == Isa::kReference) {
          ASSERT_EQ(bits_of(out), bits_of(expected)) << name_of(isa);
        } else {
          ASSERT_NEAR(out[0], mean, 1e-6) << name_of(isa);
          ASSERT_EQ(bits_of(out), bits_of(batch.attend({reference_of(isa), pool})));
        }
      }
    }
  }
}

TEST(PagedAttention, TreatsDenormalsAsZeroOnEveryInstructionSet) {
  ThreadPool pool(1);
  const auto tiny = [](Kind kind, uint64_t sequence, size_t position, size_t index) {
    const float scale = kind == Kind::kQuery ? 1e-18F : kind == Kind::kKey ? 1e-20F : 3e-38F;
    return scale * element(kind, sequence, position, index);
  };
  for (const Shape& shape : shapes()) {
    Batch batch(shape, {{13, 20, 30}}, 1, tiny);
    const std::vector<float> by_pairs = batch.attend({Isa::kReference, pool});
    const std::vector<float> by_tiles = batch.attend({Isa::kAmxReference, pool});
    for (const Isa isa : supported_isas()) {
      if (is_reference(isa)) continue;
      const auto& expected = reference_of(isa) == Isa::kReference ? by_pairs : by_tiles;
      ASSERT_EQ(bits_of(batch.attend({isa, pool})), bits_of(expected)) << name_of(isa);
    }
  }
}

}  // namespace
}  // namespace millrace
