#include <gtest/gtest.h>

#include <cmath>

#include "cuda/kernels/cuda_test_data.h"
#include "cuda/kernels/rms_norm.h"
#include "cuda/kernels/thread_orders.h"

namespace millrace::cuda {
namespace {

constexpr float kEps = 1e-6F;

std::vector<uint16_t> normed(const std::vector<float>& x, const std::vector<float>& weight) {
  const DeviceArray<float> device_x(x);
  const DeviceArray<float> device_weight(weight);
  const size_t num_tokens = x.size() / weight.size();
  const DeviceArray<uint16_t> out(num_token_elements(num_tokens, weight.size()));
  rms_norm(
      {},
      {.x = device_x.data(),
       .num_tokens = num_tokens,
       .hidden = weight.size(),
       .weight = device_weight.data(),
       .eps = kEps,
       .out = out.data()}
  );
  return token_rows(out.read(), num_tokens, weight.size());
}

TEST(RmsNormOnDevice, IsWithinARoundingOfTheDefinition) {
  for (const size_t hidden : {1, 2, 3, 31, 64, 576, 896, 1024, 1025, 3584, 5003}) {
    constexpr size_t kTokens = 3;
    const std::vector<float> x = random_floats(kTokens * hidden, 7);
    const std::vector<float> weight = random_floats(hidden, 8);
    const auto result = same_in_every_thread_order([&] { return normed(x, weight); });
    for (size_t token = 0; token < kTokens; ++token) {
      double sum = 0.0;
      for (size_t i = 0; i < hidden; ++i) sum += std::pow(x[token * hidden + i], 2);
      const double factor = 1.0 / std::sqrt(sum / static_cast<double>(hidden) + double{kEps});
      for (size_t i = 0; i < hidden; ++i) {
        const double exact = x[token * hidden + i] * factor * weight[i];
        // Half a unit in the last of bfloat16's 8 bits, and what float32 adds to it.
        ASSERT_NEAR(widened(result[token * hidden + i]), exact, std::abs(exact) * 0x1.01p-8)
            << hidden << ", " << token << ", " << i;
      }
    }
  }
}

// Few tokens, and many: there is a kernel for each.
TEST(RmsNormOnDevice, DoesNotDependOnTheOtherRows) {
  for (const size_t hidden : {size_t{52}, size_t{896}, size_t{2100}, size_t{5000}}) {
    constexpr size_t kTokens = 69;
    const std::vector<float> x = random_floats(kTokens * hidden, 9);
    const std::vector<float> weight = random_floats(hidden, 10);
    const std::vector<uint16_t> all = normed(x, weight);
    for (size_t token = 0; token < kTokens; ++token) {
      const auto begin = x.begin() + static_cast<std::ptrdiff_t>(token * hidden);
      const std::vector<uint16_t> alone =
          normed({begin, begin + static_cast<std::ptrdiff_t>(hidden)}, weight);
      ASSERT_TRUE(std::equal(alone.begin(), alone.end(), &all[token * hidden]))
          << hidden << ", " << token;
    }
  }
}

TEST(RmsNormOnDevice, TakesRowsOfAnyLength) {
  constexpr size_t kHidden = 17000;  // more than a block's registers hold
  const std::vector<float> x = random_floats(kHidden, 11);
  const std::vector<float> weight(kHidden, 1.0F);
  double sum = 0.0;
  for (const float value : x) sum += std::pow(value, 2);
  const double factor = 1.0 / std::sqrt(sum / double{kHidden} + double{kEps});
  const std::vector<uint16_t> result = normed(x, weight);
  for (size_t i = 0; i < kHidden; ++i) {
    ASSERT_NEAR(widened(result[i]), x[i] * factor, std::abs(x[i] * factor) * 0x1.01p-8) << i;
  }
}

TEST(RmsNormOnDevice, DoesNothingForNoTokens) {
  rms_norm({}, {});
}

}  // namespace
}  // namespace millrace::cuda
