#include "checkpoint/dequantize.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "checkpoint/test_files.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

using namespace testing_files;

std::vector<float> dequantized(StorageType storage, const std::string& stored, size_t count) {
  std::vector<float> out(count);
  dequantize(storage, as_bytes(stored), out);
  return out;
}

TEST(Dequantize, EveryFloat16IsExact) {
  std::string stored;
  for (uint32_t bits = 0; bits < 65536; ++bits) append(stored, static_cast<uint16_t>(bits));
  const std::vector<float> values = dequantized(StorageType::kF16, stored, 65536);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    ASSERT_EQ(
        std::bit_cast<uint32_t>(values[bits]),
        std::bit_cast<uint32_t>(to_float(Float16{static_cast<uint16_t>(bits)}))
    ) << bits;
  }
}

TEST(Dequantize, EveryBFloat16IsExact) {
  std::string stored;
  for (uint32_t bits = 0; bits < 65536; ++bits) append(stored, static_cast<uint16_t>(bits));
  const std::vector<float> values = dequantized(StorageType::kBF16, stored, 65536);
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    ASSERT_EQ(std::bit_cast<uint32_t>(values[bits]), bits << 16);
  }
}

TEST(Dequantize, ReadsFloat32FromAnyAddress) {
  std::string stored = "x";
  append(stored, 1.25F);
  append(stored, -0.0F);
  std::vector<float> out(2);
  dequantize(StorageType::kF32, as_bytes(stored).subspan(1), out);
  EXPECT_EQ(out[0], 1.25F);
  EXPECT_TRUE(std::signbit(out[1]));
}

TEST(Dequantize, BlocksFollowTheirDefinition) {
  const uint16_t half = to_float16(0.5F).bits;
  const uint16_t minus_three = to_float16(-3.0F).bits;

  std::string q8;
  append(q8, half);
  for (int i = 0; i < 32; ++i) append(q8, static_cast<int8_t>(i * 8 - 128));
  std::vector<float> values = dequantized(StorageType::kQ8_0, q8, 32);
  EXPECT_EQ(values[0], -64.0F);
  EXPECT_EQ(values[17], 4.0F);

  std::string nibbles;
  for (int i = 0; i < 16; ++i) append(nibbles, static_cast<uint8_t>(i | ((15 - i) << 4)));
  std::string q4_0;
  append(q4_0, half);
  values = dequantized(StorageType::kQ4_0, q4_0 + nibbles, 32);
  EXPECT_EQ(values[0], -4.0F);
  EXPECT_EQ(values[15], 3.5F);
  EXPECT_EQ(values[16], 3.5F);
  EXPECT_EQ(values[31], -4.0F);

  std::string q4_1;
  append(q4_1, half);
  append(q4_1, minus_three);
  values = dequantized(StorageType::kQ4_1, q4_1 + nibbles, 32);
  EXPECT_EQ(values[0], -3.0F);
  EXPECT_EQ(values[15], 4.5F);
  EXPECT_EQ(values[16], 4.5F);
  EXPECT_EQ(values[31], -3.0F);
}

TEST(Dequantize, NothingIsReadForNothing) {
  for (const StorageType storage : {StorageType::kF32, StorageType::kF16, StorageType::kQ4_1}) {
    dequantize(storage, {}, {});
  }
}

}  // namespace
}  // namespace millrace
