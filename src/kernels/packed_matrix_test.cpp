#include "kernels/packed_matrix.h"

#include <gtest/gtest.h>

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
