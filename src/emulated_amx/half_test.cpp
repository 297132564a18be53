#include "emulated_amx/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace millrace::emulated_amx {
namespace {

// Holds every a * b + c of halves: 11 bits each, exponents from -48 to 32.
__extension__ using Exact = __float128;

Exact distance(Exact a, Exact b) {
  return a < b ? b - a : a - b;
}

// Whether no half is nearer to `exact` than `half`, and none as near has an even last bit instead.
bool is_nearest(Float16 half, Exact exact) {
  const auto value = static_cast<Exact>(to_float(half));
  for (const int step : {-1, 1}) {
    const Float16 other{static_cast<uint16_t>(half.bits + step)};
    if (!std::isfinite(to_float(other))) continue;
    const auto other_value = static_cast<Exact>(to_float(other));
    if (distance(other_value, exact) < distance(value, exact)) return false;
    if (distance(other_value, exact) == distance(value, exact) && half.bits % 2 != 0) return false;
  }
  return true;
}

TEST(Half, IsTheNearestToAProductAndASum) {
  std::mt19937 random(1);
  const auto draw = [&] { return Float16{static_cast<uint16_t>(random())}; };
  size_t num_finite = 0;
  for (int i = 0; i < 300000; ++i) {
    const Float16 a = draw();
    const Float16 b = draw();
    const Float16 c = draw();
    const Float16 result = multiply_add(a, b, c);
    const float rough = std::fma(to_float(a), to_float(b), to_float(c));
    if (!std::isfinite(rough)) {
      EXPECT_FALSE(std::isfinite(to_float(result)));
      continue;
    }
    if (std::abs(rough) >= 65520.0F) {
      EXPECT_EQ(to_float(result), std::copysign(INFINITY, rough));
      continue;
    }
    ++num_finite;
    const Exact exact = static_cast<Exact>(to_float(a)) * to_float(b) + to_float(c);
    EXPECT_TRUE(is_nearest(result, exact)) << a.bits << " * " << b.bits << " + " << c.bits;
  }
  EXPECT_GT(num_finite, 100000U);
}

// 1 + 2^-11 is halfway between 1 and the next half; what decides is too small for a double.
TEST(Half, IsRoundedOnce) {
  const Float16 one{0x3C00};
  const Float16 half_step{0x1000};  // 2^-11
  const Float16 tiny{0x0001};       // 2^-24
  const Float16 minus_tiny{0x8001};
  EXPECT_EQ(multiply_add(one, half_step, one).bits, 0x3C00);
  const Float16 large{0x7800};  // 2^15
  const Float16 below{0x4FFF};  // just below 2^5
  EXPECT_EQ(multiply_add(tiny, tiny, large).bits, 0x7800);
  // 2^15 + 2^4 is halfway to the next one.
  EXPECT_EQ(multiply_add(one, Float16{0x4C00}, large).bits, 0x7800);
  EXPECT_EQ(multiply_add(one, below, large).bits, 0x7801);
  EXPECT_EQ(multiply_add(tiny, tiny, half_step).bits, 0x1000);
  EXPECT_EQ(multiply_add(minus_tiny, one, tiny).bits, 0x0000);
}

TEST(Half, OfAWordIsTheNearest) {
  EXPECT_EQ(half_of(int16_t{-32768}).bits, 0xF800);
  EXPECT_EQ(half_of(uint16_t{65519}).bits, 0x7BFF);
  EXPECT_EQ(half_of(uint16_t{65520}).bits, 0x7C00);
  for (int value = 0; value < 65520; value += 7) {
    const auto word = static_cast<uint16_t>(value);
    EXPECT_TRUE(is_nearest(half_of(word), word)) << value;
  }
}

}  // namespace
}  // namespace millrace::emulated_amx
