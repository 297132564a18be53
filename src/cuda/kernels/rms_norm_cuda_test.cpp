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
  const DeviceArray<uint16_t> out(x.size());
  rms_norm(
      {},
      {.x = device_x.data(),
       .num_tokens = x.size() / weight.size(),
       .hidden = weight.size(),
       .weight = device_weight.data(),
       .eps = kEps,
       .out = out.data()}
  );
  return out.read();
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

TEST(RmsNormOnDevice, DoesNotDependOnTheOtherRows) {
  constexpr size_t kHidden = 896;
  const std::vector<float> x = random_floats(9 * kHidden, 9);
  const std::vector<float> weight = random_floats(kHidden, 10);
  const std::vector<uint16_t> all = normed(x, weight);
  for (size_t token = 0; token < 9; ++token) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(token * kHidden);
    const std::vector<uint16_t> alone = normed({begin, begin + kHidden}, weight);
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(), &all[token * kHidden])) << token;
  }
}

TEST(RmsNormOnDevice, DoesNothingForNoTokens) {
  rms_norm({}, {});
}

}  // namespace
}  // namespace millrace::cuda
