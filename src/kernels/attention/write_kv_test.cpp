#include "kernels/attention/write_kv.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "kernels/attention/kv_test_data.h"
#include "kernels/test_data.h"

namespace millrace {
namespace {

struct Shape {
  size_t num_heads;
  size_t num_kv_heads;
  size_t head_dim;
  size_t block_size;
  DType dtype;
  bool with_norm;
};

std::vector<Shape> shapes() {
  std::vector<Shape> shapes;
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const bool with_norm : {false, true}) {
      shapes.push_back({3, 1, 8, 16, dtype, with_norm});
      shapes.push_back({4, 2, 10, 16, dtype, with_norm});
      shapes.push_back({7, 1, 64, 32, dtype, with_norm});
      shapes.push_back({3, 3, 80, 16, dtype, with_norm});
      shapes.push_back({2, 1, 2, 48, dtype, with_norm});
    }
  }
  return shapes;
}

const std::vector<int32_t> kPositions = {5, 0, 99, 17, 31};
const std::vector<int32_t> kSlots = {3, 40, 95, 16, 15};

struct Written {
  std::vector<float> qkv;
  std::unique_ptr<TestKvCache> cache;
};

struct Case {
  Shape shape;
  RopeTable rope;
  std::vector<float> q_norm;
  std::vector<float> k_norm;
  std::vector<float> qkv;
};

Case make_case(const Shape& shape) {
  ThreadPool pool(1);
  const RopeOptions rope = {
      .head_dim = shape.head_dim, .theta = 100.0, .scaling = std::nullopt, .num_positions = 100};
  const size_t num_columns = (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim;
  Case result = {shape, *RopeTable::make(rope, pool), {}, {}, random_floats(5 * num_columns, 3)};
  if (shape.with_norm) {
    result.q_norm = random_floats(shape.head_dim, 4);
    result.k_norm = random_floats(shape.head_dim, 5);
  }
  return result;
}

Written run(const Executor& executor, const Case& test) {
  const Shape& shape = test.shape;
  Written written = {test.qkv, nullptr};
  written.cache = std::make_unique<TestKvCache>(KvView{
      .dtype = shape.dtype,
      .num_blocks = 96 / shape.block_size,
      .block_size = shape.block_size,
      .num_kv_heads = shape.num_kv_heads,
      .head_dim = shape.head_dim});
  write_kv(
      executor,
      {.qkv = rows_of(written.qkv, test.qkv.size() / 5),
       .num_heads = shape.num_heads,
       .q_norm = test.q_norm,
       .k_norm = test.k_norm,
       .norm_eps = 1e-5F,
       .rope = test.rope,
       .positions = kPositions,
       .slots = kSlots,
       .cache = written.cache->view()}
  );
  return written;
}

// Dimension d of a head after its norm (where there is one) and its rotation.
double exact_rotated(
    const Case& test,
    std::span<const float> head,
    std::span<const float> norm,
    int32_t position,
    size_t d
) {
  const size_t half = test.shape.head_dim / 2;
  double factor = 1.0;
  if (!norm.empty()) {
    double sum = 0.0;
    for (const float x : head) sum += static_cast<double>(x) * static_cast<double>(x);
    factor = 1.0 / std::sqrt(sum / static_cast<double>(head.size()) + 1e-5);
  }
  const auto scaled = [&](size_t i) {
    return static_cast<double>(head[i]) * factor *
           (norm.empty() ? 1.0 : static_cast<double>(norm[i]));
  };
  const size_t pair = d % half;
  const double angle =
      position * std::pow(100.0, -static_cast<double>(pair) / static_cast<double>(half));
  if (d < half) return scaled(pair) * std::cos(angle) - scaled(pair + half) * std::sin(angle);
  return scaled(pair + half) * std::cos(angle) + scaled(pair) * std::sin(angle);
}

TEST(WriteKv, NormalizesRotatesAndWritesEachTokenToItsSlot) {
  ThreadPool pool(1);
  for (const Shape& shape : shapes()) {
    const Case test = make_case(shape);
    const Written written = run({Isa::kReference, pool}, test);
    const size_t width = test.qkv.size() / 5;
    for (size_t token = 0; token < 5; ++token) {
      const auto slot = static_cast<size_t>(kSlots[token]);
      for (size_t head = 0; head < shape.num_heads + 2 * shape.num_kv_heads; ++head) {
        const size_t begin = token * width + head * shape.head_dim;
        const auto before = std::span(test.qkv).subspan(begin, shape.head_dim);
        const auto after = std::span(written.qkv).subspan(begin, shape.head_dim);
        const bool is_query = head < shape.num_heads;
        const bool is_key = !is_query && head < shape.num_heads + shape.num_kv_heads;
        for (size_t d = 0; d < shape.head_dim; ++d) {
          if (!is_query && !is_key) {
            const size_t kv_head = head - shape.num_heads - shape.num_kv_heads;
            ASSERT_EQ(written.cache->value(slot, kv_head, d), rounded_to(shape.dtype, before[d]));
            continue;
          }
          const auto norm = std::span<const float>(is_query ? test.q_norm : test.k_norm);
          ASSERT_NEAR(after[d], exact_rotated(test, before, norm, kPositions[token], d), 2e-5);
          if (!is_key) continue;
          const size_t kv_head = head - shape.num_heads;
          ASSERT_EQ(written.cache->key(slot, kv_head, d), rounded_to(shape.dtype, after[d]));
        }
      }
    }
  }
}

TEST(WriteKv, HasTheSameBitsOnEveryInstructionSetAndThreadCount) {
  ThreadPool one(1);
  ThreadPool three(3);
  for (const Shape& shape : shapes()) {
    const Case test = make_case(shape);
    const Written expected = run({Isa::kReference, one}, test);
    for (const Isa isa : supported_isas()) {
      for (ThreadPool* pool : {&one, &three}) {
        const Written found = run({isa, *pool}, test);
        EXPECT_EQ(bits_of(found.qkv), bits_of(expected.qkv)) << name_of(isa);
        EXPECT_EQ(found.cache->keys(), expected.cache->keys()) << name_of(isa);
        EXPECT_EQ(found.cache->values(), expected.cache->values()) << name_of(isa);
      }
    }
  }
}

TEST(WriteKv, LeavesOtherSlotsAlone) {
  ThreadPool pool(1);
  for (const Isa isa : supported_isas()) {
    const Written written = run({isa, pool}, make_case({3, 1, 10, 16, DType::kFloat32, true}));
    for (size_t slot = 0; slot < 96; ++slot) {
      const bool taken =
          std::find(kSlots.begin(), kSlots.end(), static_cast<int32_t>(slot)) != kSlots.end();
      for (size_t d = 0; d < 10; ++d) {
        EXPECT_EQ(std::isnan(written.cache->key(slot, 0, d)), !taken);
        EXPECT_EQ(std::isnan(written.cache->value(slot, 0, d)), !taken);
      }
    }
  }
}

TEST(WriteKv, RoundsTheExtremesAsTheScalarConversionsDo) {
  ThreadPool pool(1);
  const std::vector<float> extremes = {
      0.0F,
      -0.0F,
      65504.0F,
      65519.0F,
      65520.0F,
      -1e30F,
      3.3961775e38F,
      0x1.0p-24F,
      0x1.8p-25F,
      0x1.0p-25F,
      -0x1.4p-15F,
      0x1.ffcp-15F,
      0x1.ffep-15F,
      1e-40F,
      1.0F + 0x1.0p-11F,
      1.0F + 0x1.8p-10F,
      1.0F + 0x1.0p-8F,
      1.0F + 0x1.8p-7F,
      0x1.fffffep127F,
      std::numeric_limits<float>::infinity(),
      -std::numeric_limits<float>::infinity()};
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const size_t head_dim : {64UL, 22UL}) {
      Case test = make_case({1, 1, head_dim, 16, dtype, false});
      // The last head of a token is its v, which is rounded and nothing else.
      std::copy(extremes.begin(), extremes.end(), &test.qkv[2 * head_dim]);
      for (const Isa isa : supported_isas()) {
        const Written written = run({isa, pool}, test);
        for (size_t d = 0; d < extremes.size(); ++d) {
          const float found = written.cache->value(static_cast<size_t>(kSlots[0]), 0, d);
          EXPECT_EQ(found, rounded_to(dtype, extremes[d])) << name_of(isa) << ' ' << extremes[d];
        }
      }
    }
  }
}

}  // namespace
}  // namespace millrace
