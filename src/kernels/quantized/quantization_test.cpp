#include "kernels/quantized/quantization.h"

#include <gtest/gtest.h>

namespace millrace {
namespace {

TEST(Quantization, IsSpelledAsItIsRead) {
  for (const std::string_view name : {"int8", "w8a8", "int4", "stored"}) {
    const std::optional<Quantization> quantization = quantization_from_name(name);
    ASSERT_TRUE(quantization) << name;
    EXPECT_EQ(name_of(*quantization), name);
  }
  EXPECT_FALSE(quantization_from_name("none"));
  EXPECT_FALSE(quantization_from_name("w8a16"));
  EXPECT_FALSE(quantization_from_name("uint4"));
}

TEST(Quantization, HasInputsOfSixteenBitsWhereWeightsOfEightAreMeantToLoseNothing) {
  const Quantization int8 = QuantizedFormat::kInt8;
  EXPECT_EQ(int8.rounding, InputRounding::kTwoTerms);
  EXPECT_EQ(Quantization::w8a8().format, int8.format);
  EXPECT_EQ(Quantization::w8a8().rounding, InputRounding::kGroups);
  EXPECT_EQ(Quantization(QuantizedFormat::kInt4).rounding, InputRounding::kRow);
  EXPECT_NE(int8, Quantization::w8a8());
}

}  // namespace
}  // namespace millrace
