#include "checkpoint/dequantize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
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

struct FormOfType {
  StorageType storage;
  CodeForm form;
};
constexpr std::array kForms = {
    FormOfType{StorageType::kQ2_K, {2, 16, false}},
    FormOfType{StorageType::kQ3_K, {3, 16, true}},
    FormOfType{StorageType::kQ4_0, {4, 32, true}},
    FormOfType{StorageType::kQ4_1, {4, 32, false}},
    FormOfType{StorageType::kQ4_K, {4, 32, false}},
    FormOfType{StorageType::kQ5_0, {5, 32, true}},
    FormOfType{StorageType::kQ5_1, {5, 32, false}},
    FormOfType{StorageType::kQ5_K, {5, 32, false}},
    FormOfType{StorageType::kQ6_K, {6, 16, true}},
    FormOfType{StorageType::kQ8_0, {8, 32, true}},
    FormOfType{StorageType::kIQ4_NL, {8, 32, true, true}},
    FormOfType{StorageType::kIQ4_XS, {8, 32, true, true}},
};

TEST(StoredCodes, AreOfTheTypesThatHaveAScaleAndABase) {
  size_t num_forms = 0;
  for (int i = 0; i <= static_cast<int>(StorageType::kOther); ++i) {
    num_forms += code_form(static_cast<StorageType>(i)) ? 1 : 0;
  }
  EXPECT_EQ(num_forms, kForms.size());
  for (const auto& [storage, form] : kForms) EXPECT_EQ(code_form(storage), form) << form.bits;
}

struct CodesOfBlocks {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<float> bases;
};

CodesOfBlocks codes_of(
    StorageType storage, const std::string& stored, size_t count, size_t num_inputs
) {
  // What is not written is seen.
  const float nan = std::nanf("");
  CodesOfBlocks all = {
      std::vector<uint8_t>(count, 0xFF),
      std::vector<float>(count / num_inputs, nan),
      std::vector<float>(count / num_inputs, nan)};
  read_codes(storage, as_bytes(stored), {all.codes, all.scales, all.bases, num_inputs});
  return all;
}

// Blocks of any bytes, but that the scales and bases that are infinite or no numbers are left out.
TEST(StoredCodes, StandForTheValues) {
  constexpr size_t kCount = 256 * 64;
  std::mt19937 random(7);
  for (const auto& [storage, form] : kForms) {
    const BlockLayout layout = block_layout(storage);
    std::string stored(kCount / layout.block_elements * layout.block_bytes, '\0');
    for (char& byte : stored) byte = static_cast<char>(random());
    const std::vector<float> values = dequantized(storage, stored, kCount);
    const int num_codes = 1 << form.bits;
    for (const size_t num_inputs : {size_t{32}, size_t{16}, size_t{8}}) {
      if (form.num_inputs % num_inputs != 0) continue;
      const CodesOfBlocks found = codes_of(storage, stored, kCount, num_inputs);
      size_t num_compared = 0;
      std::vector<bool> is_seen(static_cast<size_t>(num_codes));
      for (size_t i = 0; i < kCount; ++i) {
        const float scale = found.scales[i / num_inputs];
        const float base = found.bases[i / num_inputs];
        ASSERT_LT(found.codes[i], num_codes);
        is_seen[found.codes[i]] = true;
        if (!std::isfinite(scale) || !std::isfinite(base)) continue;
        ++num_compared;
        ASSERT_EQ(static_cast<float>(found.codes[i]) * scale + base, values[i])
            << form.bits << " bits by " << num_inputs << ": " << i;
        if (form.is_symmetric) {
          ASSERT_EQ(base, static_cast<float>(-num_codes / 2) * scale);
        }
      }
      EXPECT_GT(num_compared, kCount / 5 * 4);
      EXPECT_EQ(std::ranges::count(is_seen, true), form.is_iq4 ? 16 : num_codes);
    }
  }
}

TEST(Dequantize, NothingIsReadForNothing) {
  for (const StorageType storage : {StorageType::kF32, StorageType::kF16, StorageType::kQ4_1}) {
    dequantize(storage, {}, {});
  }
}

}  // namespace
}  // namespace millrace
