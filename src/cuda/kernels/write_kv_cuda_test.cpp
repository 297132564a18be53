#include <gtest/gtest.h>

#include <cmath>

#include "cuda/kernels/cuda_test_data.h"
#include "cuda/kernels/thread_orders.h"
#include "cuda/kernels/write_kv.h"
#include "kernels/attention/kv_test_data.h"
#include "kernels/attention/write_kv.h"
#include "kernels/rope.h"

namespace millrace::cuda {
namespace {

struct Shape {
  size_t num_heads;
  size_t num_kv_heads;
  size_t head_dim;
  size_t block_size;
  bool has_norms;
};

const Shape kShapes[] = {
    {1, 1, 2, 16, false},
    {3, 1, 10, 16, true},
    {14, 2, 64, 16, false},
    {6, 3, 80, 32, true},
    {16, 8, 128, 16, true},
    {2, 1, 256, 16, false},
    {9, 3, 64, 48, false},
};

constexpr size_t kNumBlocks = 5;
constexpr float kEps = 1e-6F;

struct Inputs {
  std::vector<float> qkv;
  std::vector<float> q_norm;
  std::vector<float> k_norm;
  RopeTable rope;
  std::vector<int32_t> positions = {0, 1, 7, 30, 12, 31};
  std::vector<int32_t> slots = {3, 70, 16, 79, 0, 33};
};

Inputs make_inputs(const Shape& shape) {
  Inputs inputs;
  const size_t width = (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim;
  inputs.qkv = random_floats(inputs.positions.size() * width, 1);
  if (shape.has_norms) {
    inputs.q_norm = random_floats(shape.head_dim, 2);
    inputs.k_norm = random_floats(shape.head_dim, 3);
  }
  ThreadPool pool(1);
  inputs.rope = *RopeTable::make({.head_dim = shape.head_dim, .num_positions = 32}, pool);
  return inputs;
}

struct Results {
  std::vector<uint16_t> q;
  std::vector<uint16_t> keys;
  std::vector<uint16_t> values;
  friend bool operator==(const Results&, const Results&) = default;
};

// Tokens [begin, end) of the inputs.
Results write(const Shape& shape, const Inputs& inputs, size_t begin, size_t end, float q_scale) {
  const size_t width = (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim;
  const size_t cache_size = kNumBlocks * shape.num_kv_heads * shape.block_size * shape.head_dim;
  const std::span<const float> rope(inputs.rope.data(), 32 * shape.head_dim);
  const std::span qkv(inputs.qkv);
  const DeviceArray<float> device_qkv(qkv.subspan(begin * width, (end - begin) * width));
  const DeviceArray<float> q_norm(inputs.q_norm);
  const DeviceArray<float> k_norm(inputs.k_norm);
  const DeviceArray<float> device_rope(rope);
  const DeviceArray<int32_t> positions(std::span(inputs.positions).subspan(begin, end - begin));
  const DeviceArray<int32_t> slots(std::span(inputs.slots).subspan(begin, end - begin));
  const DeviceArray<uint16_t> keys(cache_size);
  const DeviceArray<uint16_t> values(cache_size);
  const DeviceArray<uint16_t> q((end - begin) * shape.num_heads * shape.head_dim);
  write_kv(
      {},
      {.qkv = device_qkv.data(),
       .num_tokens = end - begin,
       .num_heads = shape.num_heads,
       .q_norm = shape.has_norms ? q_norm.data() : nullptr,
       .k_norm = shape.has_norms ? k_norm.data() : nullptr,
       .norm_eps = kEps,
       .rope = device_rope.data(),
       .positions = positions.data(),
       .slots = slots.data(),
       .cache =
           {.keys = keys.data(),
            .values = values.data(),
            .num_kv_heads = shape.num_kv_heads,
            .block_size = shape.block_size,
            .head_dim = shape.head_dim},
       .q = q.data(),
       .q_scale = q_scale}
  );
  return {q.read(), keys.read(), values.read()};
}

// What the CPU's operator makes of the same: qkv with q and k changed in place, and its cache.
struct Reference {
  std::vector<float> qkv;
  TestKvCache cache;

  Reference(const Shape& shape, const Inputs& inputs)
      : qkv(inputs.qkv),
        cache(
            {.dtype = DType::kBFloat16,
             .num_blocks = kNumBlocks,
             .block_size = shape.block_size,
             .num_kv_heads = shape.num_kv_heads,
             .head_dim = shape.head_dim}
        ) {
    ThreadPool pool(1);
    millrace::write_kv(
        {Isa::kReference, pool},
        {.qkv = rows_of(qkv, (shape.num_heads + 2 * shape.num_kv_heads) * shape.head_dim),
         .num_heads = shape.num_heads,
         .q_norm = inputs.q_norm,
         .k_norm = inputs.k_norm,
         .norm_eps = kEps,
         .rope = inputs.rope,
         .positions = inputs.positions,
         .slots = inputs.slots,
         .cache = cache.view()}
    );
  }
};

// Without a norm the bits are the CPU's; with one, its sum has another order.
void expect_like(float value, float expected, const Shape& shape) {
  if (!shape.has_norms) {
    ASSERT_EQ(value, expected);
  } else {
    ASSERT_NEAR(value, expected, 1e-4F + std::abs(expected) * 0x1p-7F);
  }
}

TEST(WriteKvOnDevice, AgreesWithTheProcessor) {
  for (const Shape& shape : kShapes) {
    SCOPED_TRACE(testing::Message() << shape.num_heads << ", " << shape.head_dim);
    const Inputs inputs = make_inputs(shape);
    const size_t num_tokens = inputs.positions.size();
    const Reference reference(shape, inputs);
    const float scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
    const Results results =
        same_in_every_thread_order([&] { return write(shape, inputs, 0, num_tokens, scale); });

    const size_t q_size = shape.num_heads * shape.head_dim;
    const size_t width = q_size + 2 * shape.num_kv_heads * shape.head_dim;
    for (size_t i = 0; i < results.q.size(); ++i) {
      const float q = reference.qkv[i / q_size * width + i % q_size];
      expect_like(widened(results.q[i]), widened(narrowed(q * scale)), shape);
    }
    std::vector<bool> is_written(kNumBlocks * shape.block_size, false);
    for (const int32_t slot : inputs.slots) is_written[static_cast<size_t>(slot)] = true;
    for (size_t i = 0; i < results.keys.size(); ++i) {
      const size_t dimension = i % shape.head_dim;
      const size_t offset = i / shape.head_dim % shape.block_size;
      const size_t kv_head = i / shape.head_dim / shape.block_size % shape.num_kv_heads;
      const size_t block = i / shape.head_dim / shape.block_size / shape.num_kv_heads;
      const size_t slot = block * shape.block_size + offset;
      if (is_written[slot]) {
        const float key = reference.cache.key(slot, kv_head, dimension);
        expect_like(widened(results.keys[i]), key, shape);
        ASSERT_EQ(widened(results.values[i]), reference.cache.value(slot, kv_head, dimension));
      } else {
        ASSERT_EQ(results.keys[i], 0xFFFF) << "a slot that is nobody's was written";
        ASSERT_EQ(results.values[i], 0xFFFF);
      }
    }
  }
}

TEST(WriteKvOnDevice, DoesNotDependOnTheOtherTokens) {
  const Shape shape = {4, 2, 80, 16, true};
  const Inputs inputs = make_inputs(shape);
  const Results all = write(shape, inputs, 0, 6, 0.25F);
  for (size_t token = 0; token < 6; ++token) {
    const Results alone = write(shape, inputs, token, token + 1, 0.25F);
    const size_t q_size = shape.num_heads * shape.head_dim;
    EXPECT_TRUE(std::equal(alone.q.begin(), alone.q.end(), &all.q[token * q_size]));
    for (size_t i = 0; i < all.keys.size(); ++i) {
      EXPECT_TRUE(alone.keys[i] == 0xFFFF || alone.keys[i] == all.keys[i]) << i;
      EXPECT_TRUE(alone.values[i] == 0xFFFF || alone.values[i] == all.values[i]) << i;
    }
  }
}

TEST(WriteKvOnDevice, DoesNothingForNoTokens) {
  write_kv({}, {});
}

}  // namespace
}  // namespace millrace::cuda
