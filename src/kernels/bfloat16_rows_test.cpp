#include "kernels/bfloat16_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/test_data.h"

namespace millrace {
namespace {

TEST(BFloat16Rows, AreRoundedAndPaddedWithZerosOnEveryInstructionSet) {
  ThreadPool pool(2);
  for (const size_t num_columns : {1, 15, 16, 17, 33, 64}) {
    std::vector<float> x = random_floats(3 * num_columns, 5);
    const size_t stride = (num_columns + 31) / 32 * 32;
    for (const Isa isa : supported_isas()) {
      std::vector<BFloat16> narrow(3 * stride, BFloat16{0x1234});
      std::vector<float> wide(3 * stride, 7.0F);
      const Executor executor = {isa, pool};
      to_bfloat16_rows(executor, rows_of(x, num_columns), {narrow.data(), 3, num_columns, stride});
      round_to_bfloat16_rows(
          executor, rows_of(x, num_columns), {wide.data(), 3, num_columns, stride}
      );
      for (size_t i = 0; i < 3 * stride; ++i) {
        const size_t column = i % stride;
        const float value = column < num_columns ? x[i / stride * num_columns + column] : 0.0F;
        EXPECT_EQ(narrow[i].bits, to_bfloat16(value).bits) << name_of(isa) << ' ' << i;
        EXPECT_EQ(wide[i], to_float(to_bfloat16(value))) << name_of(isa) << ' ' << i;
      }
    }
  }
}

TEST(BFloat16Tiles, HoldTheSameValuesTileByTile) {
  ThreadPool pool(2);
  const BFloat16 untouched = {0x1234};
  for (const size_t num_rows : {1, 15, 16, 17, 40}) {
    for (const size_t num_columns : {1, 31, 32, 33, 1100}) {
      std::vector<float> x = random_floats(num_rows * num_columns, 6);
      const size_t num_across = (num_columns + 31) / 32;
      const size_t rows_of_tile = std::min<size_t>(num_rows, 16);
      std::vector<BFloat16> expected(
          (num_rows + 15) / 16 * num_across * rows_of_tile * 32, untouched
      );
      for (size_t row = 0; row < num_rows; ++row) {
        for (size_t column = 0; column < 32 * num_across; ++column) {
          const size_t tile = row / 16 * num_across + column / 32;
          const float value = column < num_columns ? x[row * num_columns + column] : 0.0F;
          expected[(tile * rows_of_tile + row % 16) * 32 + column % 32] = to_bfloat16(value);
        }
      }
      for (const Isa isa : supported_isas()) {
        std::vector<BFloat16> tiles(expected.size(), untouched);
        to_bfloat16_tiles({isa, pool}, rows_of(x, num_columns), tiles.data());
        for (size_t i = 0; i < tiles.size(); ++i) {
          ASSERT_EQ(tiles[i].bits, expected[i].bits)
              << name_of(isa) << ", " << num_rows << " x " << num_columns << ", element " << i;
        }
      }
    }
  }
}

TEST(BFloat16RowsDeathTest, RefuseAnotherShape) {
  ThreadPool pool(1);
  std::vector<float> x(8);
  std::vector<float> out(8);
  EXPECT_DEATH(
      round_to_bfloat16_rows({best_isa(), pool}, rows_of(x, 4), rows_of(out, 8)), "the shape of x"
  );
}

}  // namespace
}  // namespace millrace
