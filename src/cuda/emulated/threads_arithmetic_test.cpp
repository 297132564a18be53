// What device code computes with, where it promises the bits of something else.
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "cuda/kernels/arithmetic.cuh"
#include "tensor/dtype.h"

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

// Every 509th float: of all 2^32 none differs, here and on an H100.
TEST(DeviceArithmetic, HasTheSiluOfADivision) {
  const auto expect_same = [](float x) {
    const float divided = x / (1.0F + exponential(0.0F - x));
    if (divided != divided) {
      ASSERT_NE(silu(x), silu(x)) << x;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(silu(x)), std::bit_cast<uint32_t>(divided)) << x;
    }
  };
  for (uint64_t bits = 0; bits <= 0xFFFFFFFFU; bits += 509) {
    expect_same(std::bit_cast<float>(static_cast<uint32_t>(bits)));
  }
  for (const float x : {17.3F, -88.7228F, -88.7229F, -30.0F, 0x1p-24F, -0x1p-24F, 0x1p-149F}) {
    expect_same(x);
  }
  expect_same(std::numeric_limits<float>::infinity());
  expect_same(-std::numeric_limits<float>::infinity());
  expect_same(std::numeric_limits<float>::quiet_NaN());
}

// Every 65537th float of either sign, infinities and NaNs among them.
TEST(DeviceArithmetic, RoundsToTheProcessorsBfloat16) {
  for (uint64_t bits = 0; bits <= 0xFFFFFFFFU; bits += 65537) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    ASSERT_EQ(bfloat16_from_float(value), to_bfloat16(value).bits) << bits;
  }
}

// What int8 codes become: the sums are whole numbers that bfloat16 holds.
TEST(DeviceArithmetic, AddsPairsOfBfloat16) {
  const auto whole = [](int value) {
    return uint32_t{to_bfloat16(static_cast<float>(value)).bits};
  };
  for (int a = -256; a <= 255; ++a) {
    for (const int b : {-256, -128, 0, 1}) {
      if (a + b < -256 || a + b > 256) continue;
      const uint32_t sums =
          add_bfloat16_pairs(whole(a) | whole(b) << 16, whole(b) | whole(a) << 16);
      ASSERT_EQ(sums, whole(a + b) | whole(a + b) << 16) << a << " + " << b;
    }
  }
  EXPECT_EQ(bytes_as_halves(0x44332211, 0, 0x77), 0x77227711U);
  EXPECT_EQ(bytes_as_halves(0x44332211, 1, 0), 0x00440033U);
  EXPECT_EQ(byte_of(0x44332211, 0), 0x11U);
  EXPECT_EQ(byte_of(0x44332211, 3), 0x44U);
  EXPECT_EQ(equal_bits(0x0000F0F0, 0x0000FF00, 0xFFFFFFFF), 0xFFFFF00FU);
  EXPECT_EQ(equal_bits(0x0000F0F0, 0x0000FF00, 0x00FF00FF), 0x00FF000FU);
}

}  // namespace
}  // namespace millrace::cuda
