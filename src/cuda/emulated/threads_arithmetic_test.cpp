// What device code computes with, where it promises the bits of something else.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "cuda/kernels/arithmetic.cuh"

namespace millrace::cuda {
namespace {

// Every 509th float from -0 to -112, and what lies beyond.
TEST(DeviceArithmetic, HasOneExponentialForNumbersUpToZero) {
  const auto expect_same = [](float x) {
    ASSERT_EQ(
        std::bit_cast<uint32_t>(exponential_to_one(x)), std::bit_cast<uint32_t>(exponential(x))
    ) << x;
  };
  constexpr uint32_t kMinusZero = 0x80000000U;
  for (uint32_t bits = kMinusZero; bits <= std::bit_cast<uint32_t>(-112.0F); bits += 509) {
    expect_same(std::bit_cast<float>(bits));
  }
  for (const float x : {0.0F, -104.0F, -103.972F, -87.3366F, -std::numeric_limits<float>::max()}) {
    expect_same(x);
  }
  expect_same(-std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace millrace::cuda
