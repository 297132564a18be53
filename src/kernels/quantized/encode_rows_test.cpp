#include "kernels/quantized/encode_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/quantized/linear_quantized_kernel.h"
#include "kernels/test_data.h"
#include "tensor/buffer.h"

namespace millrace {
namespace {

struct Encoded {
  Buffer scratch;
  EncodedRows rows;

  const std::byte* row(size_t index) const { return rows.data + index * rows.stride; }
  size_t value_bytes() const { return EncodedRows::value_bytes(rows.rounding, rows.form); }
  // Of a group.
  int value(size_t row_index, size_t group, size_t input) const {
    const std::byte* const values = row(row_index) + group * value_bytes();
    if (rows.form == InputForm::kWords) {
      constexpr size_t kExchanged[] = {0, 2, 1, 3};
      int16_t word = 0;
      const size_t place = input / 4 * 4 + kExchanged[input % 4];
      std::memcpy(&word, values + place * sizeof word, sizeof word);
      return word;
    }
    const int first = std::bit_cast<int8_t>(values[input]);
    return value_bytes() < 128 ? first : 256 * first + std::bit_cast<int8_t>(values[64 + input]);
  }
  const std::byte* behind_values(size_t row_index) const {
    return row(row_index) + rows.num_groups * value_bytes();
  }
  // What the sum of a group's products starts with, that of its words included.
  int32_t start(size_t row_index, size_t group) const {
    int32_t start = 0;
    std::memcpy(&start, behind_values(row_index) + group * 4, sizeof start);
    if (rows.form == InputForm::kBytesAndStarts) {
      for (size_t word = 0; word < 8; ++word) start += word_start(row_index, group, word);
    }
    return start;
  }
  // Of InputForm::kBytesAndStarts.
  int word_start(size_t row_index, size_t group, size_t word) const {
    int16_t start = 0;
    const std::byte* const values = row(row_index) + group * value_bytes();
    std::memcpy(&start, values + kActivationGroup + word * sizeof start, sizeof start);
    return start;
  }
  CodedInputs coded_inputs(size_t row_index, size_t group) const {
    CodedInputs coded;
    std::memcpy(&coded, behind_values(row_index) + group * sizeof coded, sizeof coded);
    return coded;
  }
  // Of a group, or of the row.
  float scale(size_t row_index, size_t group = 0) const {
    float scale = 0.0F;
    const size_t place = (rows.num_groups + group) * 4;
    std::memcpy(&scale, behind_values(row_index) + place, sizeof scale);
    return scale;
  }
  // All values, in order, then what lies behind those of each row.
  std::vector<int> values() const {
    std::vector<int> all;
    for (size_t i = 0; i < rows.num_rows; ++i) {
      for (size_t input = 0; input < rows.num_groups * 64; ++input) {
        all.push_back(value(i, input / 64, input % 64));
      }
    }
    return all;
  }
  std::vector<int32_t> starts() const {
    std::vector<int32_t> all;
    for (size_t i = 0; i < rows.num_rows; ++i) {
      for (size_t group = 0; group < rows.num_groups; ++group) all.push_back(start(i, group));
    }
    return all;
  }
  std::vector<std::byte> rest() const {
    const bool is_coded = rows.rounding == InputRounding::kUnrotated;
    const size_t num_scales = has_row_scales(rows.rounding) ? 1 : rows.num_groups;
    std::vector<std::byte> all;
    for (size_t i = 0; i < rows.num_rows; ++i) {
      const std::byte* const begin = behind_values(i) + (is_coded ? 0 : rows.num_groups * 4);
      const size_t size = is_coded ? rows.num_groups * sizeof(CodedInputs) : num_scales * 4;
      all.insert(all.end(), begin, begin + size);
    }
    return all;
  }

  friend bool operator==(const Encoded& a, const Encoded& b) {
    const bool is_coded = a.rows.rounding == InputRounding::kUnrotated;
    return a.values() == b.values() && a.rest() == b.rest() &&
           (is_coded || a.starts() == b.starts());
  }
};

Encoded encode(
    const Executor& executor, std::vector<float> x, size_t num_columns, InputRounding rounding
) {
  const size_t num_rows = x.size() / num_columns;
  const size_t row_bytes =
      EncodedRows::row_bytes(num_columns, rounding, input_form(executor.isa, rounding));
  Encoded encoded{.scratch = *Buffer::allocate(num_rows * row_bytes)};
  encoded.rows = encode_rows(executor, rows_of(x, num_columns), rounding, encoded.scratch.bytes());
  return encoded;
}

constexpr InputRounding kRoundings[] = {
    InputRounding::kGroups,
    InputRounding::kRow,
    InputRounding::kTwoTerms,
    InputRounding::kUnrotated};

// Entry (row, column) of the Walsh-Hadamard matrix: the parity of the bits they share.
double hadamard(size_t row, size_t column) {
  return std::popcount(row & column) % 2 == 0 ? 1.0 : -1.0;
}

TEST(EncodeRows, RotatesByTheLargestPowerOfTwoThatDividesTheInputs) {
  EXPECT_EQ(rotation_size(1), 64U);
  EXPECT_EQ(rotation_size(576), 64U);
  EXPECT_EQ(rotation_size(896), 128U);
  EXPECT_EQ(rotation_size(1536), 512U);
  EXPECT_EQ(rotation_size(4095), 1024U);
}

TEST(EncodeRows, RotatesByTheWalshHadamardMatrix) {
  for (const size_t size : {64, 128, 1024}) {
    const std::vector<float> x = random_floats(2 * size, 5);
    for (const Isa isa : supported_isas()) {
      std::vector<float> rotated = x;
      rotate(isa, rotated, size);
      for (size_t i = 0; i < rotated.size(); ++i) {
        double exact = 0.0;
        for (size_t k = 0; k < size; ++k) {
          exact += hadamard(i % size, k) * static_cast<double>(x[i / size * size + k]);
        }
        ASSERT_NEAR(rotated[i], exact, 1e-4) << name_of(isa) << ' ' << size << ' ' << i;
      }
    }
  }
}

// Of a row of `num_columns`, up to whole groups.
std::vector<float> rotated_row(std::span<const float> x, size_t row, size_t num_columns) {
  std::vector<float> rotated((num_columns + 63) / 64 * 64);
  std::copy_n(&x[row * num_columns], num_columns, rotated.begin());
  rotate(Isa::kReference, rotated, rotation_size(num_columns));
  return rotated;
}

// Expects a group's values to be `rotated` to within half a step of `scale`, and their start to go
// with them. Returns the largest magnitude.
int expect_rounded(
    const Encoded& encoded, size_t row, size_t group, std::span<const float> rotated, float scale
) {
  int sum = 0;
  int peak = 0;
  for (size_t i = 0; i < 64; ++i) {
    const int value = encoded.value(row, group, i);
    EXPECT_NEAR(static_cast<float>(value) * scale, rotated[group * 64 + i], scale * 0.501F);
    sum += value;
    peak = std::max(peak, std::abs(value));
  }
  const int weight_zero = encoded.rows.rounding == InputRounding::kRow ? kInt4Zero : kInt8Zero;
  EXPECT_EQ(encoded.start(row, group), kSumStart - weight_zero * sum);
  return peak;
}

TEST(EncodeRows, RoundsEachGroupToWithinHalfAStepOfItsLargest) {
  ThreadPool pool(1);
  const std::vector<float> x = random_floats(3 * 300, 6);
  const Encoded encoded = encode({Isa::kReference, pool}, x, 300, InputRounding::kGroups);
  for (size_t row = 0; row < 3; ++row) {
    const std::vector<float> rotated = rotated_row(x, row, 300);
    for (size_t group = 0; group < 5; ++group) {
      const float scale = encoded.scale(row, group);
      EXPECT_EQ(expect_rounded(encoded, row, group, rotated, scale), 127);
    }
  }
}

TEST(EncodeRows, RoundsEachRowToWithinHalfAStepOfItsLargest) {
  ThreadPool pool(1);
  std::vector<float> x = random_floats(3 * 300, 6);
  for (size_t i = 64; i < 300; ++i) x[i] *= 0.01F;  // of the first row all groups but one are small
  const Encoded encoded = encode({Isa::kReference, pool}, x, 300, InputRounding::kRow);
  for (size_t row = 0; row < 3; ++row) {
    const std::vector<float> rotated = rotated_row(x, row, 300);
    int peaks[5];
    for (size_t group = 0; group < 5; ++group) {
      peaks[group] = expect_rounded(encoded, row, group, rotated, encoded.scale(row));
    }
    EXPECT_EQ(std::ranges::max(peaks), 127);
    if (row == 0) {
      EXPECT_LT(peaks[4], 5);
    }
  }
}

TEST(EncodeRows, RoundsEachRowOfTwoTermsToWithinHalfAStepOfItsLargest) {
  ThreadPool pool(1);
  const std::vector<float> x = random_floats(3 * 300, 6);
  const Encoded encoded = encode({Isa::kReference, pool}, x, 300, InputRounding::kTwoTerms);
  for (size_t row = 0; row < 3; ++row) {
    const std::vector<float> rotated = rotated_row(x, row, 300);
    const float scale = encoded.scale(row);
    int peak = 0;
    for (size_t group = 0; group < 5; ++group) {
      int sum = 0;
      for (size_t i = 0; i < 64; ++i) {
        const int value = encoded.value(row, group, i);
        EXPECT_NEAR(static_cast<float>(value) * scale, rotated[group * 64 + i], scale * 0.51F);
        peak = std::max(peak, std::abs(value));
        sum += value;
      }
      EXPECT_EQ(encoded.start(row, group), -kInt8Zero * sum);
    }
    EXPECT_EQ(peak, 127 * 256);
  }
}

TEST(EncodeRows, KeepsUnrotatedInputsInTwoBytes) {
  ThreadPool pool(1);
  std::vector<float> x = random_floats(2 * 300, 6);
  for (size_t i = 64; i < 128; ++i) x[i] *= 1000.0F;  // which is nothing to other groups
  for (size_t i = 0; i < 4; ++i) x[300 + i] = 0.25F * static_cast<float>(i);
  x[305] = 127.0F;  // a step is 1 / 256: of 0.25 the lower byte is 64, of 0.5 it is -128
  const Encoded encoded = encode({Isa::kReference, pool}, x, 300, InputRounding::kUnrotated);
  for (size_t row = 0; row < 2; ++row) {
    std::vector<float> values(320);
    std::copy_n(&x[row * 300], 300, values.begin());
    for (size_t group = 0; group < 5; ++group) {
      const CodedInputs coded = encoded.coded_inputs(row, group);
      float peak = 0.0F;
      int sums[4] = {};
      for (size_t i = 0; i < 64; ++i) {
        const float value = values[group * 64 + i];
        const int number = encoded.value(row, group, i);
        EXPECT_NEAR(static_cast<float>(number) * coded.scale, value, coded.scale * 0.51F);
        peak = std::max(peak, std::fabs(value));
        sums[i / 16] += number;
      }
      EXPECT_NEAR(coded.scale * kNumberPeak, peak, peak * 1e-6F);
      for (size_t i = 0; i < 4; ++i) EXPECT_EQ(coded.starts[i], -128 * sums[i]);
      for (size_t half = 0; half < 2; ++half) {
        const int sum = sums[2 * half] + sums[2 * half + 1];
        EXPECT_EQ(coded.half_sums[half], static_cast<float>(sum));
      }
      EXPECT_EQ(coded.sum, coded.half_sums[0] + coded.half_sums[1]);
    }
  }
  const int expected[4][2] = {{0, 0}, {0, 64}, {1, -128}, {1, -64}};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(std::bit_cast<int8_t>(encoded.row(1)[i]), expected[i][0]);
    EXPECT_EQ(std::bit_cast<int8_t>(encoded.row(1)[64 + i]), expected[i][1]);
  }
}

// Rows that are kept whole between two passes over them, and longer ones.
TEST(EncodeRows, HasTheSameNumbersOnEveryInstructionSetAndThreadCount) {
  ThreadPool one(1);
  ThreadPool three(3);
  for (const size_t num_columns :
       {1, 16, 63, 64, 70, 127, 128, 576, 896, 1024, 1088, 1536, 2176, 20480, 23040}) {
    for (const size_t num_rows : {1, 2, 7}) {
      std::vector<float> x = random_floats(num_rows * num_columns, 7);
      for (size_t i = 0; i < x.size(); i += 9) x[i] *= 1e-3F;
      std::fill_n(x.begin(), num_columns, num_rows == 2 ? 0.0F : 1.0F);
      for (const InputRounding rounding : kRoundings) {
        const Encoded expected = encode({Isa::kReference, one}, x, num_columns, rounding);
        for (const Isa isa : supported_isas()) {
          EXPECT_TRUE(encode({isa, one}, x, num_columns, rounding) == expected)
              << name_of(isa) << ' ' << num_rows << " x " << num_columns << ' '
              << static_cast<int>(rounding);
          EXPECT_TRUE(encode({isa, three}, x, num_columns, rounding) == expected) << name_of(isa);
        }
      }
    }
  }
}

TEST(EncodeRows, WordsOfProductsBeginWithWhatTheirWeightsHaveAdded) {
  ThreadPool pool(1);
  const std::vector<float> x = random_floats(3 * 300, 8);
  for (const Isa isa : supported_isas()) {
    if (input_form(isa, InputRounding::kRow) != InputForm::kBytesAndStarts) continue;
    const Encoded encoded = encode({isa, pool}, x, 300, InputRounding::kRow);
    for (size_t row = 0; row < 3; ++row) {
      for (size_t input = 0; input < 320; input += 16) {
        int sums[2] = {};
        for (size_t i = 0; i < 16; ++i) {
          sums[i % 4 / 2] += encoded.value(row, input / 64, input % 64 + i);
        }
        for (size_t i = 0; i < 2; ++i) {
          EXPECT_EQ(encoded.word_start(row, input / 64, input % 64 / 8 + i), -kInt4Zero * sums[i]);
        }
      }
    }
  }
}

// Of each instruction set that writes tiles, and of a part of wider rows.
TEST(EncodeRows, WritesTilesOfRotatedRowsWithTheMiddleOfEveryFourExchanged) {
  ThreadPool three(3);
  for (const size_t num_columns : {1, 63, 70, 128, 896}) {
    for (const size_t num_rows : {1, 7, 16, 37}) {
      std::vector<float> wide = random_floats(num_rows * (num_columns + 5), 9);
      const ConstRows x = rows_of(wide, num_columns + 5).columns(2, num_columns);
      const size_t num_padded = (num_columns + 63) / 64 * 64;
      const size_t tile_rows = std::min<size_t>(num_rows, 16);
      for (const Isa isa : supported_isas()) {
        Buffer scratch = *Buffer::allocate(RotatedTiles::num_bytes(num_rows, num_columns));
        const RotatedTiles tiles = rotate_to_tiles({isa, three}, x, scratch.bytes());
        ASSERT_EQ(tiles.tile_bytes, tile_rows * 64);
        for (size_t row = 0; row < num_rows; ++row) {
          std::vector<float> rotated(num_padded);
          std::copy_n(x.row(row), num_columns, rotated.begin());
          rotate(Isa::kReference, rotated, rotation_size(num_columns));
          for (size_t i = 0; i < num_padded; ++i) {
            const size_t tile = row / 16 * (num_padded / 32) + i / 32;
            constexpr size_t kExchanged[] = {0, 2, 1, 3};
            const size_t place = row % 16 * 32 + i % 32 / 4 * 4 + kExchanged[i % 4];
            const BFloat16 found = tiles.data[tile * tile_rows * 32 + place];
            ASSERT_EQ(found.bits, to_bfloat16(rotated[i]).bits)
                << name_of(isa) << ' ' << num_rows << " x " << num_columns << ": " << row << ' '
                << i;
          }
        }
      }
    }
  }
}

// What one row of ByteTiles holds: its values in order, its scale and their sum.
struct ByteTilesRow {
  std::vector<int8_t> values;
  ByteRow row;

  friend bool operator==(const ByteTilesRow& a, const ByteTilesRow& b) {
    return a.values == b.values && std::memcmp(&a.row, &b.row, sizeof a.row) == 0;
  }
};

std::vector<ByteTilesRow> encode_to_byte_tiles(const Executor& executor, ConstRows x) {
  Buffer scratch = *Buffer::allocate(ByteTiles::num_bytes(x.num_rows, x.num_columns));
  const ByteTiles tiles = encode_to_tiles(executor, x, scratch.bytes());
  const size_t tile_rows = std::min<size_t>(x.num_rows, 16);
  EXPECT_EQ(tiles.tile_bytes, tile_rows * 64);
  EXPECT_EQ(tiles.num_groups, (x.num_columns + 63) / 64);
  std::vector<ByteTilesRow> rows(x.num_rows);
  for (size_t row = 0; row < x.num_rows; ++row) {
    rows[row].row = tiles.rows[row];
    for (size_t group = 0; group < tiles.num_groups; ++group) {
      const size_t tile = row / 16 * tiles.num_groups + group;
      const std::byte* values = tiles.data + (tile * tile_rows + row % 16) * 64;
      for (size_t i = 0; i < 64; ++i) rows[row].values.push_back(std::bit_cast<int8_t>(values[i]));
    }
  }
  return rows;
}

TEST(EncodeRows, RoundsWholeRowsToWithinHalfAStepOfTheirLargest) {
  ThreadPool pool(1);
  for (const size_t num_columns : {1, 300, 896, 9000}) {
    std::vector<float> x = random_floats(3 * num_columns, 6);
    const ConstRows rows = rows_of(x, num_columns);
    const auto encoded = encode_to_byte_tiles({Isa::kAmxReference, pool}, rows);
    for (size_t row = 0; row < 3; ++row) {
      const std::vector<float> rotated = rotated_row(x, row, num_columns);
      const auto& [values, of_row] = encoded[row];
      ASSERT_EQ(values.size(), rotated.size());
      int peak = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_NEAR(
            static_cast<float>(values[i]) * of_row.scale, rotated[i], of_row.scale * 0.501F
        );
        peak = std::max(peak, std::abs(int{values[i]}));
      }
      EXPECT_EQ(peak, 127);
      EXPECT_EQ(of_row.sum, std::accumulate(values.begin(), values.end(), 0));
    }
  }
}

// Of each instruction set that writes tiles; rows that are kept whole between the two passes over
// them, and longer ones.
TEST(EncodeRows, WritesTheSameTilesOfBytesOnEveryInstructionSetAndThreadCount) {
  ThreadPool one(1);
  ThreadPool three(3);
  for (const size_t num_columns : {1, 63, 70, 128, 896, 9000, 20480, 23040}) {
    for (const size_t num_rows : {1, 7, 16, 37}) {
      std::vector<float> wide = random_floats(num_rows * (num_columns + 5), 9);
      for (size_t i = 0; i < wide.size(); i += 7) wide[i] *= 1e-3F;
      if (num_rows == 7) std::fill_n(wide.begin(), num_columns + 5, 0.0F);
      const ConstRows x = rows_of(wide, num_columns + 5).columns(2, num_columns);
      const auto expected = encode_to_byte_tiles({Isa::kAmxReference, one}, x);
      for (const Isa isa : supported_isas()) {
        EXPECT_EQ(encode_to_byte_tiles({isa, one}, x), expected)
            << name_of(isa) << ' ' << num_rows << " x " << num_columns;
        EXPECT_EQ(encode_to_byte_tiles({isa, three}, x), expected) << name_of(isa);
      }
    }
  }
}

TEST(EncodeRows, KeepsWhatIsNoNumberVisibleInTiles) {
  ThreadPool pool(1);
  for (const Isa isa : supported_isas()) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> x(3 * 64, 1.0F);
      x[3] = bad;  // and finite groups after it
      const auto rows = encode_to_byte_tiles({isa, pool}, rows_of(x, x.size()));
      EXPECT_FALSE(std::isfinite(rows[0].row.scale)) << name_of(isa);
    }
  }
}

TEST(EncodeRows, ReadsColumnsOfWiderRows) {
  ThreadPool pool(1);
  std::vector<float> wide = random_floats(4 * 100, 8);
  std::vector<float> narrow;
  for (size_t row = 0; row < 4; ++row) {
    narrow.insert(narrow.end(), &wide[row * 100 + 9], &wide[row * 100 + 9] + 70);
  }
  for (const Isa isa : supported_isas()) {
    for (const InputRounding rounding : kRoundings) {
      const Encoded expected = encode({isa, pool}, narrow, 70, rounding);
      const size_t row_bytes = EncodedRows::row_bytes(70, rounding, input_form(isa, rounding));
      Encoded found = {.scratch = *Buffer::allocate(4 * row_bytes)};
      const ConstRows columns = rows_of(wide, 100).columns(9, 70);
      found.rows = encode_rows({isa, pool}, columns, rounding, found.scratch.bytes());
      EXPECT_TRUE(found == expected) << name_of(isa);
    }
  }
}

TEST(EncodeRows, KeepsWhatIsNoNumberVisible) {
  ThreadPool pool(1);
  for (const Isa isa : supported_isas()) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> x(3 * 64, 1.0F);
      x[3] = bad;  // and finite groups after it
      for (const InputRounding rounding : kRoundings) {
        const Encoded encoded = encode({isa, pool}, x, x.size(), rounding);
        const bool is_coded = rounding == InputRounding::kUnrotated;
        const float scale = is_coded ? encoded.coded_inputs(0, 0).scale : encoded.scale(0);
        EXPECT_FALSE(std::isfinite(scale)) << name_of(isa);
      }
    }
  }
}

// 127 / peak would be infinite there.
TEST(EncodeRows, RoundsWhatIsNextToNothingToZeros) {
  ThreadPool pool(1);
  std::vector<float> x(128, 1e-39F);
  for (const Isa isa : supported_isas()) {
    for (const InputRounding rounding : kRoundings) {
      const Encoded encoded = encode({isa, pool}, x, 128, rounding);
      EXPECT_TRUE(std::isfinite(encoded.scale(0))) << name_of(isa);
      for (size_t group = 0; group < 2; ++group) {
        if (rounding == InputRounding::kUnrotated) {
          EXPECT_EQ(encoded.coded_inputs(0, group).sum, 0.0F) << name_of(isa);
        } else {
          const int32_t start = rounding == InputRounding::kTwoTerms ? 0 : kSumStart;
          EXPECT_EQ(encoded.start(0, group), start) << name_of(isa);
        }
        for (size_t i = 0; i < 64; ++i) EXPECT_EQ(encoded.value(0, group, i), 0) << name_of(isa);
      }
    }
    const auto rows = encode_to_byte_tiles({isa, pool}, rows_of(x, 128));
    EXPECT_TRUE(std::isfinite(rows[0].row.scale)) << name_of(isa);
    EXPECT_EQ(rows[0].row.sum, 0) << name_of(isa);
    EXPECT_EQ(rows[0].values, std::vector<int8_t>(128)) << name_of(isa);
  }
}

TEST(EncodeRowsDeathTest, RefusesAScratchThatIsTooSmall) {
  ThreadPool pool(1);
  std::vector<float> x(128, 1.0F);
  constexpr InputRounding kRounding = InputRounding::kGroups;
  const size_t row_bytes =
      EncodedRows::row_bytes(128, kRounding, input_form(best_isa(), kRounding));
  Buffer scratch = *Buffer::allocate(row_bytes - 1);
  EXPECT_DEATH(
      encode_rows({best_isa(), pool}, rows_of(x, 128), kRounding, scratch.bytes()),
      "the scratch holds"
  );
  EXPECT_DEATH(
      encode_to_tiles(
          {best_isa(), pool},
          rows_of(x, 128),
          scratch.bytes().first(ByteTiles::num_bytes(1, 128) - 1)
      ),
      "room for all tiles"
  );
}

}  // namespace
}  // namespace millrace
