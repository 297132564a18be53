#include <gtest/gtest.h>

#include "cuda/kernels/cuda_test_data.h"
#include "cuda/kernels/rotate_rows.h"
#include "cuda/kernels/thread_orders.h"
#include "kernels/quantized/encode_rows.h"

namespace millrace::cuda {
namespace {

// One transform a row and several, of every size; rows of more than a block has columns.
constexpr size_t kWidths[] = {1, 63, 64, 100, 128, 320, 576, 896, 1024, 1536, 3584, 4096};

// Row-major; what is padding was not written before.
std::vector<uint16_t> rotated(const std::vector<uint16_t>& x, size_t num_inputs) {
  const size_t num_tokens = x.size() / num_inputs;
  const DeviceArray<uint16_t> device_x(token_tiles(x, num_inputs));
  const DeviceArray<uint16_t> out(num_token_elements(num_tokens, num_inputs));
  rotate_rows(
      {},
      {.x = device_x.data(), .num_tokens = num_tokens, .num_inputs = num_inputs, .out = out.data()}
  );
  return token_rows(out.read(), num_tokens, num_rotated_inputs(num_inputs));
}

TEST(RotateRowsOnDevice, GivesTheProcessorsBits) {
  for (const size_t num_tokens : {3, 34}) {  // few, and many
    for (const size_t num_inputs : kWidths) {
      const std::vector<uint16_t> x = random_bfloat16(num_tokens * num_inputs, 1);
      const auto result = same_in_every_thread_order([&] { return rotated(x, num_inputs); });
      const size_t width = num_rotated_inputs(num_inputs);
      for (size_t token = 0; token < num_tokens; ++token) {
        std::vector<float> row(width, 0.0F);
        for (size_t i = 0; i < num_inputs; ++i) row[i] = widened(x[token * num_inputs + i]);
        rotate(Isa::kReference, row, rotation_size(num_inputs));
        for (size_t i = 0; i < width; ++i) {
          ASSERT_EQ(result[token * width + i], narrowed(row[i])) << num_inputs << ", " << i;
        }
      }
    }
  }
}

TEST(RotateRowsOnDevice, OfWhatIsNormedGivesTheBitsOfBoth) {
  for (const size_t num_tokens : {1, 5, 32, 33}) {
    for (const size_t hidden : kWidths) {
      const DeviceArray<float> x(random_floats(num_tokens * hidden, 2));
      const DeviceArray<float> weight(random_floats(hidden, 3));
      const size_t size = num_token_elements(num_tokens, hidden);
      const DeviceArray<uint16_t> normed(size);
      const DeviceArray<uint16_t> apart(size);
      const DeviceArray<uint16_t> together(size);
      const RmsNormArgs norm = {
          .x = x.data(),
          .num_tokens = num_tokens,
          .hidden = hidden,
          .weight = weight.data(),
          .eps = 1e-5F,
          .out = normed.data()};
      const size_t width = num_rotated_inputs(hidden);
      const auto result = same_in_every_thread_order([&] {
        rotate_normed({}, norm, together.data());
        return token_rows(together.read(), num_tokens, width);
      });
      rms_norm({}, norm);
      rotate_rows(
          {},
          {.x = normed.data(), .num_tokens = num_tokens, .num_inputs = hidden, .out = apart.data()}
      );
      ASSERT_EQ(result, token_rows(apart.read(), num_tokens, width))
          << num_tokens << ", " << hidden;
    }
  }
}

TEST(RotateRowsOnDevice, DoesNothingForNoTokens) {
  rotate_rows({}, {});
  rotate_normed({}, {}, nullptr);
}

}  // namespace
}  // namespace millrace::cuda
