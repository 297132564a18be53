#include "kernels/quantized/quantized_matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/quantized/quantized_test_data.h"

namespace millrace {
namespace {

// Sums of twelve uniform numbers: nearly normal, variance 4.
std::vector<float> normal_floats(size_t size, uint64_t seed) {
  const std::vector<float> uniform = random_floats(size * 12, seed);
  std::vector<float> values(size);
  for (size_t i = 0; i < uniform.size(); ++i) values[i / 12] += uniform[i];
  return values;
}

// Root of the squared error over the square of what was rounded.
double relative_error(const QuantizedMatrix& matrix, std::span<const float> rows) {
  double error = 0.0;
  double square = 0.0;
  std::vector<float> row(matrix.num_columns());
  for (size_t r = 0; r < matrix.num_rows(); ++r) {
    matrix.copy_row(r, row);
    for (size_t i = 0; i < row.size(); ++i) {
      const auto exact = static_cast<double>(rows[r * row.size() + i]);
      error += (exact - static_cast<double>(row[i])) * (exact - static_cast<double>(row[i]));
      square += exact * exact;
    }
  }
  return std::sqrt(error / square);
}

TEST(QuantizedMatrix, KeepsWeightsToWithinWhatItsBitsCanSay) {
  for (const size_t num_columns : {64, 100, 896}) {
    const std::vector<float> rows = normal_floats(37 * num_columns, 3);
    EXPECT_LT(relative_error(quantized(QuantizedFormat::kInt8, rows, num_columns), rows), 0.0075);
    EXPECT_LT(relative_error(quantized(QuantizedFormat::kInt6, rows, num_columns), rows), 0.030);
    EXPECT_LT(relative_error(quantized(QuantizedFormat::kInt4, rows, num_columns), rows), 0.088);
  }
}

TEST(QuantizedMatrix, SpreadsAnOutlierInsteadOfLosingTheRest) {
  std::vector<float> rows = normal_floats(16 * 1024, 4);
  for (size_t row = 0; row < 16; ++row) rows[row * 1024 + row * 60] = 300.0F;
  const QuantizedMatrix matrix = quantized(QuantizedFormat::kInt8, rows, 1024);
  std::vector<float> row(1024);
  matrix.copy_row(3, row);
  double error = 0.0;
  for (size_t i = 0; i < 1024; ++i) {
    const auto difference = static_cast<double>(row[i] - rows[3 * 1024 + i]);
    error += difference * difference / 1024.0;
  }
  // Rounding 300 without the rotation, its neighbours would be off by 300 / 127 / sqrt(12) = 0.68.
  EXPECT_LT(std::sqrt(error), 0.08);
}

TEST(QuantizedMatrix, HasTheSameBitsPackedByEveryInstructionSet) {
  for (const QuantizedFormat format : kQuantizedFormats) {
    const std::vector<float> rows = random_floats(21 * 130, 5);
    const auto expected = bytes_of(quantized(format, rows, 130, Isa::kReference));
    for (const Isa isa : supported_isas()) {
      EXPECT_EQ(bytes_of(quantized(format, rows, 130, isa)), expected) << name_of(isa);
    }
  }
}

// Where each bit of a code lies.
TEST(QuantizedMatrix, KeepsSixBitsInTwoPlaces) {
  std::vector<float> rows(16 * 64);
  for (size_t row = 0; row < 16; ++row) {
    // Rotated: 1.3 or 0.7 of either sign, so that codes are 31 and 17.
    rows[row * 64 + row] = 1.0F;
    rows[row * 64 + 63] = 0.3F;
  }
  QuantizedMatrix matrix = quantized(QuantizedFormat::kInt6, rows, 64);
  const auto* const group = reinterpret_cast<const unsigned char*>(matrix.panel(0).data()) + 4 * 16;
  std::vector<float> rotated = rows;
  rotate(Isa::kReference, rotated, 64);
  for (size_t row = 0; row < 16; ++row) {
    for (size_t input = 0; input < 64; ++input) {
      const size_t place = row * 4 + input % 4;
      const int lower = group[input / 8 * 64 + place] >> (input % 8 < 4 ? 0 : 4) & 15;
      const int upper = group[512 + input / 16 * 64 + place] >> (input % 16 / 4 * 2) & 3;
      const auto code = static_cast<float>(lower + 16 * upper - 32);
      EXPECT_NEAR(code, rotated[row * 64 + input] * 31.0F / 1.3F, 0.51F) << row << ' ' << input;
    }
  }
}

// Groups from denormal to immense beside each other, so that scales are clamped and codes are at
// both ends; rows of zeros; and what is no number.
TEST(QuantizedMatrix, HasTheSameBitsOfAnyWeightsPackedByEveryInstructionSet) {
  for (const size_t num_columns : {1, 63, 64, 200, 896, 1024}) {
    for (const size_t num_rows : {1, 15, 16, 18}) {
      std::vector<float> rows = normal_floats(num_rows * num_columns, num_columns + num_rows);
      for (size_t i = 0; i < rows.size(); ++i) {
        const size_t group = i % num_columns / 64;
        if (i / num_columns % 3 == 1)
          rows[i] = std::ldexp(rows[i], 12 * (static_cast<int>(group) - 8));
        if (i / num_columns % 5 == 2) rows[i] = 0.0F;
        if (i / num_columns == 14) rows[i] = std::ldexp(rows[i], -140);
      }
      rows[rows.size() / 2] = std::numeric_limits<float>::infinity();
      rows.back() = num_rows == 18 ? std::numeric_limits<float>::quiet_NaN() : 3e38F;
      for (const QuantizedFormat format : kQuantizedFormats) {
        const auto expected = bytes_of(quantized(format, rows, num_columns, Isa::kReference));
        for (const Isa isa : supported_isas()) {
          EXPECT_EQ(bytes_of(quantized(format, rows, num_columns, isa)), expected)
              << name_of(format) << ' ' << name_of(isa) << ' ' << num_rows << " x " << num_columns;
        }
      }
    }
  }
}

// Part groups, part panels, and scales and bases that differ by five powers of ten.
TEST(QuantizedMatrix, KeepsWhatOthersHaveQuantized) {
  for (const QuantizedFormat format : formats_of_codes()) {
    const CodeFormat codes = *code_format(format);
    for (const size_t num_columns : {24, 40, 128, 200, 320}) {
      const size_t num_inputs = codes.num_inputs;
      const std::vector<float> rows = random_floats(19 * num_columns, 8);
      CodedRowsData data = coded(rows, num_columns, codes);
      for (size_t i = 0; i < data.scales.size(); ++i) {
        const float base = -3.0F * std::pow(0.1F, static_cast<float>(i % 5));
        data.scales[i] = to_float(to_float16(std::pow(0.1F, static_cast<float>(i % 6))));
        data.bases[i] = codes.has_bases ? to_float(to_float16(base))
                                        : -static_cast<float>(codes.zero_code()) * data.scales[i];
      }
      QuantizedMatrix matrix = *QuantizedMatrix::allocate(format, 19, num_columns);
      const size_t num_scales = data.scales.size() / 19;
      for (size_t panel = 0; panel < 2; ++panel) {
        const size_t first = panel * 16;
        const size_t count = panel == 0 ? 16 : 3;
        CodedRows part = data.view();
        part.codes = part.codes.subspan(first * num_columns, count * num_columns);
        part.scales = part.scales.subspan(first * num_scales, count * num_scales);
        part.bases = part.bases.subspan(first * num_scales, count * num_scales);
        matrix.pack_codes(panel, part);
      }
      const std::vector<float> values = data.values(num_columns, num_inputs);
      std::vector<float> found(num_columns);
      for (size_t row = 0; row < 19; ++row) {
        matrix.copy_row(row, found);
        for (size_t i = 0; i < num_columns; ++i) {
          ASSERT_EQ(found[i], values[row * num_columns + i])
              << name_of(format) << ' ' << num_inputs << ' ' << num_columns << ": " << row << ' '
              << i;
        }
      }
    }
  }
}

TEST(QuantizedMatrix, TakesTheBytesThatItSays) {
  // 14 groups of 64 inputs: codes, a byte of scale a row, and a float of a row's own.
  EXPECT_EQ(
      QuantizedMatrix::num_bytes(QuantizedFormat::kInt8, 17, 896), 2U * (14 * (1024 + 16) + 96)
  );
  EXPECT_EQ(QuantizedMatrix::num_bytes(QuantizedFormat::kInt4, 16, 896), 14U * (512 + 16) + 96);
  EXPECT_EQ(quantized(QuantizedFormat::kInt4, random_floats(896, 1), 896).num_bytes(), 7488U);
  EXPECT_EQ(QuantizedMatrix::num_bytes(QuantizedFormat::kInt6, 16, 896), 14U * (768 + 16) + 96);
  // Two bytes of scale and of base, of a group or of each half of it.
  constexpr QuantizedFormat kCodes = QuantizedFormat::kUint4;
  constexpr QuantizedFormat kCodesBy32 = QuantizedFormat::kUint4By32;
  EXPECT_EQ(QuantizedMatrix::num_bytes(kCodes, 16, 896), 14U * (512 + 64) + 64);
  EXPECT_EQ(QuantizedMatrix::num_bytes(kCodesBy32, 16, 896), 14U * (512 + 128) + 64);
  // Upper bits of codes, four scales to a group, and no bases.
  EXPECT_EQ(
      QuantizedMatrix::num_bytes(QuantizedFormat::kUint5By32, 16, 896), 14U * (640 + 128) + 64
  );
  EXPECT_EQ(
      QuantizedMatrix::num_bytes(QuantizedFormat::kUint6By16, 16, 896), 14U * (768 + 256) + 64
  );
  EXPECT_EQ(
      QuantizedMatrix::num_bytes(QuantizedFormat::kUint6By16AroundZero, 16, 896),
      14U * (768 + 128) + 64
  );
  EXPECT_EQ(
      QuantizedMatrix::num_bytes(QuantizedFormat::kUint8By32AroundZero, 16, 896),
      14U * (1024 + 64) + 64
  );
  EXPECT_FALSE(QuantizedMatrix::num_bytes(QuantizedFormat::kInt8, 16, SIZE_MAX / 8));
  EXPECT_FALSE(QuantizedMatrix::num_bytes(QuantizedFormat::kInt8, SIZE_MAX / 2, 1024));
}

TEST(QuantizedMatrix, KeepsZerosAndSurvivesWhatIsNoNumber) {
  for (const QuantizedFormat format : kQuantizedFormats) {
    std::vector<float> rows(3 * 64, 0.0F);
    rows[64 + 7] = std::numeric_limits<float>::quiet_NaN();
    rows[64 + 9] = std::numeric_limits<float>::infinity();
    rows[128] = 1e-42F;
    const QuantizedMatrix matrix = quantized(format, rows, 64);
    std::vector<float> row(64);
    for (size_t r = 0; r < 3; ++r) {
      matrix.copy_row(r, row);
      for (const float value : row) {
        EXPECT_FALSE(std::isnan(value)) << name_of(format) << " row " << r;
        EXPECT_TRUE(r != 0 || value == 0.0F);
      }
    }
  }
}

TEST(QuantizedMatrix, IsNamedAsOnTheCommandLine) {
  for (const QuantizedFormat format : {QuantizedFormat::kInt8, QuantizedFormat::kInt4}) {
    EXPECT_EQ(quantized_format_from_name(name_of(format)), format);
  }
  EXPECT_EQ(name_of(QuantizedFormat::kInt6), "int6");
  EXPECT_EQ(quantized_format_from_name("int6"), std::nullopt) << "heads alone";
  EXPECT_EQ(quantized_format_from_name("int5"), std::nullopt);
}

}  // namespace
}  // namespace millrace
