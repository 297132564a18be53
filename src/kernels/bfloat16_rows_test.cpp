#include "kernels/bfloat16_rows.h"

#include <gtest/gtest.h>

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
