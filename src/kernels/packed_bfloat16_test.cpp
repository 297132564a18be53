#include "kernels/packed_bfloat16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/test_data.h"

namespace millrace {
namespace {

constexpr BFloat16Panels kBothPanels[] = {BFloat16Panels::kPacked, BFloat16Panels::kWhole};

bool are_same(const WeightException& a, const WeightException& b) {
  return a.column == b.column && a.row == b.row && a.bits == b.bits;
}

struct Panel {
  BFloat16Panels panels;
  std::vector<uint8_t> bytes;
  std::vector<WeightException> exceptions;

  uint16_t bits(size_t row, size_t column) const {
    return bfloat16_panel_weight(panels, bytes.data(), row, column).bits;
  }
};

Panel pack(
    BFloat16Panels panels, std::span<const float> rows, size_t num_columns, Isa isa = best_isa()
) {
  Panel panel = {.panels = panels, .bytes = {}, .exceptions = {}};
  panel.bytes.resize(bfloat16_panel_bytes(panels, num_columns), 0xA5);
  panel.exceptions = pack_bfloat16_panel(panels, rows, num_columns, panel.bytes, isa);
  return panel;
}

// What the panel and its exceptions hold together.
uint16_t bits_at(const Panel& panel, size_t row, size_t column) {
  for (const WeightException& exception : panel.exceptions) {
    if (exception.row == row && exception.column == column) {
      EXPECT_EQ(panel.bits(row, column), 0);
      return exception.bits;
    }
  }
  return panel.bits(row, column);
}

TEST(PackedBFloat16, TakesTwelveBitsAWeightAndATable) {
  EXPECT_EQ(bfloat16_panel_bytes(BFloat16Panels::kPacked, 896), 64U + 896 * 16 * 12 / 8);
  EXPECT_EQ(bfloat16_panel_bytes(BFloat16Panels::kPacked, 1), 64U + 8 * 16 * 12 / 8);
}

TEST(PackedBFloat16, TakesSixteenBitsAWeightWhole) {
  EXPECT_EQ(bfloat16_panel_bytes(BFloat16Panels::kWhole, 896), 896U * 16 * 2);
  EXPECT_EQ(bfloat16_panel_bytes(BFloat16Panels::kWhole, 1), 8U * 16 * 2);
}

TEST(PackedBFloat16, KeepsEveryBitOfWeightsAsTheyOccur) {
  for (const BFloat16Panels panels : kBothPanels) {
    for (const size_t num_columns : {1UL, 7UL, 8UL, 9UL, 100UL}) {
      for (const size_t num_rows : {1UL, 5UL, 16UL}) {
        const std::vector<float> rows = random_floats(num_rows * num_columns, 3);
        const Panel panel = pack(panels, rows, num_columns);
        for (size_t i = 0; i < rows.size(); ++i) {
          ASSERT_EQ(bits_at(panel, i / num_columns, i % num_columns), to_bfloat16(rows[i]).bits);
        }
        for (size_t row = num_rows; row < 16; ++row) EXPECT_EQ(bits_at(panel, row, 0), 0);
      }
    }
  }
}

// Not without them: where sums add them shows in their bits.
TEST(PackedBFloat16, HasTheSameWeightsAndExceptionsWhole) {
  constexpr size_t kColumns = 2048;
  std::vector<float> rows = random_floats(16 * kColumns, 5);
  for (size_t i = 0; i < rows.size(); i += 7) {
    rows[i] = std::ldexp(rows[i], -static_cast<int>(i % 60));
  }
  const Panel packed = pack(BFloat16Panels::kPacked, rows, kColumns);
  const Panel whole = pack(BFloat16Panels::kWhole, rows, kColumns);
  EXPECT_GT(packed.exceptions.size(), 100U);
  EXPECT_TRUE(std::ranges::equal(whole.exceptions, packed.exceptions, are_same));
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(whole.bits(i / kColumns, i % kColumns), packed.bits(i / kColumns, i % kColumns)) << i;
  }
}

// All 65,536 values are in it, so most are exceptions.
TEST(PackedBFloat16, KeepsEveryBitOfAnyWeights) {
  constexpr size_t kColumns = 4096;
  std::vector<float> rows(16 * kColumns);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = to_float(BFloat16{static_cast<uint16_t>(i * 40503)});
  }
  for (const BFloat16Panels panels : kBothPanels) {
    const Panel panel = pack(panels, rows, kColumns);
    EXPECT_GT(panel.exceptions.size(), 50'000U);
    for (size_t i = 1; i < panel.exceptions.size(); ++i) {
      ASSERT_LE(panel.exceptions[i - 1].column, panel.exceptions[i].column);
    }
    // The exceptions of a column are at most 16, and follow those before it.
    size_t next = 0;
    for (size_t column = 0; column < kColumns; ++column) {
      for (size_t row = 0; row < 16; ++row) {
        uint16_t found = panel.bits(row, column);
        const bool is_exception = next < panel.exceptions.size() &&
                                  panel.exceptions[next].column == column &&
                                  panel.exceptions[next].row == row;
        if (is_exception) found = panel.exceptions[next++].bits;
        ASSERT_EQ(found, to_bfloat16(rows[row * kColumns + column]).bits) << row << ' ' << column;
      }
    }
    EXPECT_EQ(next, panel.exceptions.size());
  }
}

std::vector<float> normal_floats(size_t size) {
  std::vector<float> rows = random_floats(size, 9);
  const std::vector<float> others = random_floats(size, 10);
  for (size_t i = 0; i < rows.size(); ++i) {
    // Box and Muller's.
    const float radius = std::sqrt(-2.0F * std::log((rows[i] + 1.0F) / 2.0F + 1e-7F));
    rows[i] = 0.02F * radius * std::cos(3.14159265F * others[i]);
  }
  return rows;
}

TEST(PackedBFloat16, HasFewExceptionsAmongNormalWeights) {
  constexpr size_t kColumns = 896;
  const Panel panel = pack(BFloat16Panels::kPacked, normal_floats(16 * kColumns), kColumns);
  EXPECT_LT(panel.exceptions.size(), 10U);  // 2 on average
}

void expect_same_bits_on_every_isa(std::span<const float> rows, size_t num_columns) {
  for (const BFloat16Panels panels : kBothPanels) {
    const Panel expected = pack(panels, rows, num_columns, Isa::kReference);
    for (const Isa isa : supported_isas()) {
      const Panel panel = pack(panels, rows, num_columns, isa);
      EXPECT_EQ(panel.bytes, expected.bytes) << name_of(isa) << ' ' << num_columns;
      EXPECT_TRUE(std::ranges::equal(panel.exceptions, expected.exceptions, are_same))
          << name_of(isa) << ' ' << num_columns;
    }
  }
}

TEST(PackedBFloat16, HasTheSameBitsPackedByEveryInstructionSet) {
  for (const size_t num_columns : {1UL, 7UL, 8UL, 9UL, 100UL, 1000UL}) {
    for (const size_t num_rows : {1UL, 15UL, 16UL}) {
      std::vector<float> rows = normal_floats(num_rows * num_columns);
      expect_same_bits_on_every_isa(rows, num_columns);
      // Zeros of both signs, denormals, what is no number, and exponents with gaps between them.
      for (size_t i = 0; i < rows.size(); i += 3) rows[i] = i % 2 == 0 ? 0.0F : -0.0F;
      rows[rows.size() / 2] = std::numeric_limits<float>::quiet_NaN();
      rows.back() = -std::numeric_limits<float>::infinity();
      rows.front() = std::numeric_limits<float>::denorm_min();
      expect_same_bits_on_every_isa(rows, num_columns);
      for (size_t i = 0; i < rows.size(); ++i) {
        rows[i] = std::ldexp(1.0F + rows[i], 3 * static_cast<int>(i * 7 % 12));
      }
      expect_same_bits_on_every_isa(rows, num_columns);
      // All bit patterns.
      for (size_t i = 0; i < rows.size(); ++i) {
        rows[i] = to_float(BFloat16{static_cast<uint16_t>(i * 40503)});
      }
      expect_same_bits_on_every_isa(rows, num_columns);
      expect_same_bits_on_every_isa(std::vector<float>(rows.size(), 0.0F), num_columns);
    }
  }
}

}  // namespace
}  // namespace millrace
