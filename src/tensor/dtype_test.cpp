#include "tensor/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace millrace {
namespace {

TEST(DType, EveryFloat16SurvivesTheWayThroughFloat32) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 half{static_cast<uint16_t>(bits)};
    const float value = to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_float16(value))));
    } else {
      EXPECT_EQ(to_float16(value).bits, half.bits);
    }
  }
}

TEST(DType, EveryBFloat16SurvivesTheWayThroughFloat32) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 brain{static_cast<uint16_t>(bits)};
    const float value = to_float(brain);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_bfloat16(value))));
    } else {
      EXPECT_EQ(to_bfloat16(value).bits, brain.bits);
    }
  }
}

TEST(DType, RoundsHalfwayToEven) {
  EXPECT_EQ(to_float16(1.0F + 0x1.0p-11F).bits, to_float16(1.0F).bits);
  EXPECT_EQ(to_float(to_float16(1.0F + 0x1.8p-10F)), 1.0F + 0x1.0p-9F);
  EXPECT_EQ(to_float(to_bfloat16(1.0F + 0x1.0p-8F)), 1.0F);
  EXPECT_EQ(to_float(to_bfloat16(1.0F + 0x1.8p-7F)), 1.0F + 0x1.0p-6F);
}

TEST(DType, OverflowsToInfinityAndUnderflowsToZero) {
  EXPECT_EQ(to_float(to_float16(65519.0F)), 65504.0F);
  EXPECT_EQ(to_float(to_float16(65520.0F)), std::numeric_limits<float>::infinity());
  EXPECT_EQ(to_float(to_float16(-1e30F)), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(to_float(to_float16(0x1.0p-25F)), 0.0F);  // halfway to the smallest, to even
  EXPECT_EQ(to_float(to_float16(0x1.8p-25F)), 0x1.0p-24F);
}

TEST(DType, NamesAndSizesMatch) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    EXPECT_EQ(dtype_from_name(name_of(dtype)), dtype);
  }
  EXPECT_EQ(size_of(DType::kFloat32), 4U);
  EXPECT_EQ(size_of(DType::kBFloat16), 2U);
  EXPECT_FALSE(dtype_from_name("int7"));
}

}  // namespace
}  // namespace millrace
