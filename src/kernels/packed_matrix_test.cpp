#include "kernels/packed_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
#include "kernels/test_data.h"

namespace millrace {
namespace {

TEST(PackedMatrix, GivesBackEveryRowRoundedToItsType) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const size_t num_columns : {1UL, 2UL, 7UL, 64UL}) {
      for (const size_t num_rows : {1UL, 15UL, 16UL, 17UL, 50UL}) {
        const std::vector<float> rows = random_floats(num_rows * num_columns, 1);
        const PackedMatrix matrix = packed(dtype, rows, num_columns);
        std::vector<float> row(num_columns);
        for (size_t r = 0; r < num_rows; ++r) {
          matrix.copy_row(r, row);
          for (size_t c = 0; c < num_columns; ++c) {
            const float value = rows[r * num_columns + c];
            const float expected = dtype == DType::kFloat32   ? value
                                   : dtype == DType::kFloat16 ? to_float(to_float16(value))
                                                              : to_float(to_bfloat16(value));
            ASSERT_EQ(row[c], expected) << name_of(dtype) << " row " << r << " column " << c;
          }
        }
      }
    }
  }
}

TEST(PackedMatrix, HasTheSameBitsPackedByEveryInstructionSet) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const size_t num_columns : {1UL, 15UL, 16UL, 33UL, 200UL}) {
      for (const size_t num_rows : {1UL, 15UL, 16UL}) {
        std::vector<float> rows = random_floats(num_rows * num_columns, 2);
        for (size_t i = 0; i < rows.size(); i += 5) rows[i] = i % 2 == 0 ? 1e-7F : 1e5F;
        const auto bytes_of = [&](Isa isa) {
          PackedMatrix matrix = *PackedMatrix::allocate(dtype, num_rows, num_columns);
          matrix.pack_panel(0, rows, isa);
          const auto* bytes = static_cast<const std::byte*>(matrix.data());
          return std::vector<std::byte>(bytes, bytes + matrix.num_bytes());
        };
        for (const Isa isa : supported_isas()) {
          EXPECT_EQ(bytes_of(isa), bytes_of(Isa::kReference))
              << name_of(dtype) << ' ' << name_of(isa) << ' ' << num_rows << " x " << num_columns;
        }
      }
    }
  }
}

// Bits of a file that nobody trained: nearly every weight would be an exception.
TEST(PackedMatrix, TakesNoMoreMemoryForWeightsOfAnyBitsAndSaysThatSomeAreLost) {
  constexpr size_t kColumns = 256;
  PackedMatrix matrix = *PackedMatrix::allocate(DType::kBFloat16, 64, kColumns);
  const size_t num_bytes = matrix.num_bytes();
  EXPECT_EQ(num_bytes, PackedMatrix::num_bytes(DType::kBFloat16, 64, kColumns));
  ThreadPool pool(3);
  pool.parallel_for(matrix.num_panels(), [&](size_t begin, size_t end) {
    for (size_t panel = begin; panel < end; ++panel) {
      std::vector<float> rows(16 * kColumns);
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto bits = static_cast<uint16_t>(random_unit(panel, i) * 65536.0);
        rows[i] = to_float(BFloat16{bits});
      }
      matrix.pack_panel(panel, rows);
    }
  });
  EXPECT_GT(matrix.num_exceptions(), 64 * kColumns / 2);
  EXPECT_FALSE(matrix.holds_all_weights());
  EXPECT_EQ(matrix.num_bytes(), num_bytes);
}

// Rows that were never trained among others: one panel may take the room of the whole matrix.
void expect_room_for_exceptions(BFloat16Panels panels) {
  constexpr size_t kColumns = 1024;
  const size_t room = PackedMatrix::num_exceptions_max(48, kColumns);
  ASSERT_EQ(room, 384U);
  for (const size_t num_apart : {size_t{0}, room, room + 1}) {
    // Fifteen exponents; then in one row more, each too rare for the table.
    std::vector<float> rows(48 * kColumns);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = std::ldexp(1.0F, static_cast<int>(i % 15));
    for (size_t i = 0; i < num_apart; ++i) {
      rows[20 * kColumns + i] = std::ldexp(-1.5F, -1 - static_cast<int>(i % 100));
    }
    PackedMatrix matrix = *PackedMatrix::allocate(DType::kBFloat16, 48, kColumns, panels);
    for (size_t panel = 0; panel < 3; ++panel) {
      matrix.pack_panel(panel, std::span(rows).subspan(panel * 16 * kColumns, 16 * kColumns));
    }
    EXPECT_EQ(matrix.num_exceptions(), num_apart);
    EXPECT_EQ(matrix.holds_all_weights(), num_apart <= room);
    EXPECT_EQ(matrix.num_bytes_read(), 3 * bfloat16_panel_bytes(panels, kColumns) + num_apart * 8);
    if (!matrix.holds_all_weights()) continue;
    std::vector<float> row(kColumns);
    matrix.copy_row(20, row);
    EXPECT_TRUE(std::ranges::equal(row, std::span(rows).subspan(20 * kColumns, kColumns)));
  }
}

TEST(PackedMatrix, KeepsAsManyExceptionsAsItSaysWhereverTheyAre) {
  expect_room_for_exceptions(BFloat16Panels::kPacked);
  expect_room_for_exceptions(BFloat16Panels::kWhole);
}

TEST(PackedMatrix, RefusesSizesThatDoNotFit) {
  EXPECT_FALSE(PackedMatrix::num_bytes(DType::kFloat32, SIZE_MAX / 2, 16));
  EXPECT_FALSE(PackedMatrix::num_bytes(DType::kFloat32, SIZE_MAX, 1));
  EXPECT_EQ(PackedMatrix::num_bytes(DType::kFloat16, 17, 3), 32U * 3 * 2);
  const Result<PackedMatrix> matrix = PackedMatrix::allocate(DType::kFloat32, SIZE_MAX / 64, 100);
  ASSERT_FALSE(matrix);
  EXPECT_EQ(matrix.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace millrace
