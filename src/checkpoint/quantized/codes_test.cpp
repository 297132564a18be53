#include "checkpoint/quantized/codes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace millrace {
namespace {

using testing::ElementsAre;

std::span<const std::byte> as_bytes_of(const std::vector<uint32_t>& words) {
  return std::as_bytes(std::span(words));
}

TEST(Codes, AStringOfBitsBeginsWithTheLowest) {
  const std::vector<uint32_t> words = {0x76543210, 0xFEDCBA98};
  const BitFields fields{.words = as_bytes_of(words), .bits = 4, .string_stride = 2};
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(fields.at(0, i), i);
  std::vector<float> row(5);
  read_code_rows(fields, 0, 5, row);
  EXPECT_THAT(row, ElementsAre(0, 1, 2, 3, 4));
}

TEST(Codes, ThreeBitsGoOnInTheNextWord) {
  // 0, 1, ..., 7, 0, 1, ...: 32 codes in three words.
  std::vector<uint32_t> words(3);
  for (uint32_t i = 0; i < 32; ++i) {
    for (uint32_t bit = 0; bit < 3; ++bit) {
      const uint32_t place = 3 * i + bit;
      words[place / 32] |= ((i % 8) >> bit & 1U) << (place % 32);
    }
  }
  const BitFields fields{.words = as_bytes_of(words), .bits = 3, .string_stride = 3};
  for (size_t i = 0; i < 32; ++i) EXPECT_EQ(fields.at(0, i), i % 8) << i;
}

TEST(Codes, AutoAwqTakesTheEvenElementsOfAWordFirst) {
  const std::vector<uint32_t> words = {0x75316420};
  const BitFields fields{
      .words = as_bytes_of(words),
      .bits = 4,
      .along = BitFields::Along::kColumn,
      .is_awq_order = true};
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(fields.at(i, 0), i);
}

TEST(Codes, ZeroPointsLessOneAreAddedUpAsWordsWere) {
  // 0, 5, 15 less one each: the first borrows from the second.
  const std::vector<uint32_t> words = {0x00000F50U - 0x11111111U};
  const BitFields fields{
      .words = as_bytes_of(words),
      .bits = 4,
      .along = BitFields::Along::kColumn,
      .is_one_less = true};
  EXPECT_EQ(fields.at(0, 0), 0);
  EXPECT_EQ(fields.at(1, 0), 5);
  EXPECT_EQ(fields.at(2, 0), 15);
  EXPECT_EQ(fields.at(3, 0), 0);
}

TEST(Codes, RowsAreWhatTheirElementsAre) {
  constexpr size_t kRows = 24;
  constexpr size_t kColumns = 45;
  std::mt19937 random(5);
  for (const int bits : {2, 3, 4, 8}) {
    for (const auto along : {BitFields::Along::kRow, BitFields::Along::kColumn}) {
      const bool is_row = along == BitFields::Along::kRow;
      const size_t string_words = BitFields::words_of(is_row ? kColumns : kRows, bits);
      const size_t num_strings = is_row ? kRows : kColumns;
      std::vector<uint32_t> words(string_words * num_strings);
      for (uint32_t& word : words) word = static_cast<uint32_t>(random());
      for (const int variant : {0, 1, 2}) {
        const bool is_interleaved = variant == 1;
        const BitFields fields{
            .words = as_bytes_of(words),
            .bits = bits,
            .along = along,
            .word_stride = is_interleaved ? num_strings : 1,
            .string_stride = is_interleaved ? 1 : string_words,
            .is_awq_order = variant == 2 && bits == 4 && !is_row};
        std::vector<float> rows(19 * kColumns);
        read_code_rows(fields, 3, kColumns, rows);
        for (size_t i = 0; i < rows.size(); ++i) {
          const size_t row = 3 + i / kColumns;
          ASSERT_EQ(rows[i], code_at(fields, row, i % kColumns)) << bits << " bits, element " << i;
        }
      }
    }
  }
}

TEST(Codes, BytesAreInt8OrFloat8) {
  EXPECT_EQ(kInt8Values[0x7F], 127);
  EXPECT_EQ(kInt8Values[0x80], -128);
  EXPECT_EQ(kInt8Values[0xFF], -1);
  EXPECT_EQ(kFloat8Values[0x38], 1);
  EXPECT_EQ(kFloat8Values[0x7E], 448);
  EXPECT_EQ(kFloat8Values[0xFE], -448);
  EXPECT_EQ(kFloat8Values[0x01], 0x1p-9F);
  EXPECT_EQ(kFloat8Values[0x07], 7 * 0x1p-9F);
  EXPECT_EQ(kFloat8Values[0x08], 0x1p-6F);
  EXPECT_TRUE(std::isnan(kFloat8Values[0x7F]));
  EXPECT_TRUE(std::isnan(kFloat8Values[0xFF]));
  EXPECT_TRUE(std::signbit(kFloat8Values[0x80]));
  const std::vector<uint8_t> bytes = {0x01, 0x80, 0x7F, 0xFF};
  const ByteCodes codes{
      .bytes = std::as_bytes(std::span(bytes)), .num_columns = 2, .values = &kInt8Values};
  std::vector<float> row(2);
  read_code_rows(codes, 1, 2, row);
  EXPECT_THAT(row, ElementsAre(127, -1));
  EXPECT_EQ(code_at(codes, 0, 1), -128);
}

}  // namespace
}  // namespace millrace
