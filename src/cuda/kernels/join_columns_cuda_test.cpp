#include <gtest/gtest.h>

#include "base/math.h"
#include "cuda/kernels/cuda_test_data.h"
#include "cuda/kernels/join_columns.h"

namespace millrace::cuda {
namespace {

TEST(JoinColumnsOnDevice, PutsPartsSideBySideAndDropsWhatIsBeyond) {
  struct Case {
    size_t part_width;
    size_t num_rows;
    size_t width;
  };
  // One part, parts that fit, a part that ends within a row, and rows of several blocks.
  for (const Case& sizes : {Case{5, 3, 5}, {16, 4, 48}, {16, 3, 37}, {1040, 2, 3001}, {1, 1, 1}}) {
    const size_t num_parts = div_ceil(sizes.width, sizes.part_width) + 1;
    const std::vector<float> parts =
        random_floats(num_parts * sizes.num_rows * sizes.part_width, 3);
    const DeviceArray<float> device_parts(parts);
    const DeviceArray<float> out(sizes.num_rows * sizes.width);
    join_columns(
        {},
        {.parts = device_parts.data(),
         .part_width = sizes.part_width,
         .num_rows = sizes.num_rows,
         .width = sizes.width,
         .out = out.data()}
    );
    const std::vector<float> result = out.read();
    for (size_t i = 0; i < result.size(); ++i) {
      const size_t column = i % sizes.width;
      const size_t row = column / sizes.part_width * sizes.num_rows + i / sizes.width;
      ASSERT_EQ(result[i], parts[row * sizes.part_width + column % sizes.part_width]) << i;
    }
  }
}

TEST(JoinColumnsOnDevice, DoNothingForNoRows) {
  join_columns({}, {});
}

}  // namespace
}  // namespace millrace::cuda
