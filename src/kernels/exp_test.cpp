#include "kernels/exp.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/test_data.h"

namespace millrace {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Every 4001st float of those whose exponential is neither 0 nor infinite, and what lies around.
std::vector<float> inputs() {
  std::vector<float> values = {
      0.0F,
      -0.0F,
      1.0F,
      -1.0F,
      kInfinity,
      -kInfinity,
      1e30F,
      -1e30F,
      std::numeric_limits<float>::quiet_NaN(),
      88.7228F,
      88.7229F,
      -87.3365F,
      -103.97F,
      -103.98F,
      -104.0F,
      89.0F,
      1e-40F};
  const uint32_t last = std::bit_cast<uint32_t>(105.0F);
  for (uint32_t bits = 0; bits < last; bits += 4001) {
    values.push_back(std::bit_cast<float>(bits));
    values.push_back(-std::bit_cast<float>(bits));
  }
  return values;
}

TEST(Exp, IsWithinOneUlpOfTheExactValue) {
  for (const float x : inputs()) {
    const float value = exp_reference(x);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    const double exact = std::exp(static_cast<double>(x));
    const auto nearest = static_cast<float>(exact);
    if (std::isinf(nearest) || nearest == 0.0F) {
      EXPECT_EQ(value, nearest) << x;
      continue;
    }
    const float ulp = std::nextafter(nearest, kInfinity) - nearest;
    EXPECT_LE(std::abs(static_cast<double>(value) - exact), static_cast<double>(ulp)) << x;
  }
}

TEST(Exp, IsExactAtZeroAndAtTheInfinities) {
  EXPECT_EQ(exp_reference(0.0F), 1.0F);
  EXPECT_EQ(exp_reference(-0.0F), 1.0F);
  EXPECT_EQ(exp_reference(kInfinity), kInfinity);
  EXPECT_EQ(exp_reference(-kInfinity), 0.0F);
}

TEST(CoarseExp, IsCloseToTheExactValue) {
  for (const float x : inputs()) {
    const float value = coarse_exp_reference(x);
    const float exact = exp_reference(x);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(value));
    } else if (std::isinf(exact)) {
      EXPECT_EQ(value, exact) << x;
    } else {
      // Subnormal ones are rounded to what there is.
      const auto smallest = static_cast<double>(std::numeric_limits<float>::denorm_min());
      EXPECT_NEAR(value, exact, 1.04e-4 * static_cast<double>(exact) + smallest) << x;
    }
  }
  EXPECT_EQ(coarse_exp_reference(0.0F), 1.0F);
  EXPECT_EQ(coarse_exp_reference(-kInfinity), 0.0F);
}

TEST(Exp, HasTheSameBitsOnEveryInstructionSet) {
  const std::vector<float> values = inputs();
  std::vector<float> expected = values;
  exp_in_place(Isa::kReference, expected);
  for (const Isa isa : supported_isas()) {
    std::vector<float> found = values;
    exp_in_place(isa, found);
    EXPECT_EQ(bits_of(found), bits_of(expected)) << name_of(isa);
  }
}

TEST(Exp, HandlesArraysOfEveryLength) {
  for (const Isa isa : supported_isas()) {
    for (size_t size = 0; size <= 33; ++size) {
      std::vector<float> values(size + 1, 1.0F);
      exp_in_place(isa, std::span(values).first(size));
      for (size_t i = 0; i < size; ++i) EXPECT_EQ(values[i], exp_reference(1.0F));
      EXPECT_EQ(values[size], 1.0F) << "wrote past the end";
    }
  }
}

TEST(Silu, IsNearTheExactValueAndVanishesOnTheLeft) {
  for (const float x : random_floats(1000, 1)) {
    const double exact = 20.0 * x / (1.0 + std::exp(-20.0 * static_cast<double>(x)));
    EXPECT_NEAR(silu_reference(20.0F * x), exact, 1e-5 * std::abs(exact) + 1e-12);
  }
  EXPECT_EQ(silu_reference(-200.0F), 0.0F);
  EXPECT_EQ(silu_reference(200.0F), 200.0F);
}

}  // namespace
}  // namespace millrace
