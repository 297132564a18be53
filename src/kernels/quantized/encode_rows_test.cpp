#include "kernels/quantized/encode_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/test_data.h"
#include "tensor/buffer.h"

namespace millrace {
namespace {

struct Encoded {
  Buffer scratch;
  EncodedRows rows;

  std::vector<std::byte> bytes() const {
    return {rows.data, rows.data + rows.num_rows * rows.stride};
  }
  const std::byte* row(size_t index) const { return rows.data + index * rows.stride; }
  int value(size_t row_index, size_t column) const {
    return std::bit_cast<int8_t>(row(row_index)[column]);
  }
  float scale(size_t row_index, size_t group) const {
    float scale = 0.0F;
    std::memcpy(&scale, row(row_index) + rows.num_groups * 64 + group * 4, sizeof scale);
    return scale;
  }
  int32_t start(size_t row_index, size_t group) const {
    int32_t start = 0;
    std::memcpy(&start, row(row_index) + rows.num_groups * 68 + group * 4, sizeof start);
    return start;
  }
};

Encoded encode(const Executor& executor, std::vector<float> x, size_t num_columns) {
  const size_t num_rows = x.size() / num_columns;
  Encoded encoded{.scratch = *Buffer::allocate(num_rows * EncodedRows::row_bytes(num_columns, 1))};
  encoded.rows = encode_rows(executor, rows_of(x, num_columns), 1, encoded.scratch.bytes());
  return encoded;
}

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

TEST(EncodeRows, RoundsEachGroupToWithinHalfAStepOfItsLargest) {
  ThreadPool pool(1);
  const std::vector<float> x = random_floats(3 * 300, 6);
  const Encoded encoded = encode({Isa::kReference, pool}, x, 300);
  for (size_t row = 0; row < 3; ++row) {
    std::vector<float> rotated(320);
    std::copy_n(&x[row * 300], 300, rotated.begin());
    rotate(Isa::kReference, rotated, 64);
    for (size_t group = 0; group < 5; ++group) {
      const float scale = encoded.scale(row, group);
      int sum = 0;
      int peak = 0;
      for (size_t i = group * 64; i < group * 64 + 64; ++i) {
        const int value = encoded.value(row, i);
        EXPECT_NEAR(static_cast<float>(value) * scale, rotated[i], scale * 0.501F);
        sum += value;
        peak = std::max(peak, std::abs(value));
      }
      EXPECT_EQ(peak, 127);
      EXPECT_EQ(encoded.start(row, group), kSumStart - 128 * sum);
    }
  }
}

TEST(EncodeRows, HasTheSameBitsOnEveryInstructionSetAndThreadCount) {
  ThreadPool one(1);
  ThreadPool three(3);
  for (const size_t num_columns : {1, 16, 63, 64, 70, 127, 128, 576, 896, 1024, 1536}) {
    for (const size_t num_rows : {1, 2, 7}) {
      std::vector<float> x = random_floats(num_rows * num_columns, 7);
      for (size_t i = 0; i < x.size(); i += 9) x[i] *= 1e-3F;
      std::fill_n(x.begin(), num_columns, num_rows == 2 ? 0.0F : 1.0F);
      const Encoded expected = encode({Isa::kReference, one}, x, num_columns);
      for (const Isa isa : supported_isas()) {
        EXPECT_EQ(encode({isa, one}, x, num_columns).bytes(), expected.bytes())
            << name_of(isa) << ' ' << num_rows << " x " << num_columns;
        EXPECT_EQ(encode({isa, three}, x, num_columns).bytes(), expected.bytes()) << name_of(isa);
      }
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
    const Encoded expected = encode({isa, pool}, narrow, 70);
    Buffer scratch = *Buffer::allocate(4 * EncodedRows::row_bytes(70, 1));
    encode_rows({isa, pool}, rows_of(wide, 100).columns(9, 70), 1, scratch.bytes());
    EXPECT_TRUE(std::ranges::equal(scratch.bytes(), expected.bytes())) << name_of(isa);
  }
}

TEST(EncodeRows, KeepsWhatIsNoNumberVisible) {
  ThreadPool pool(1);
  for (const Isa isa : supported_isas()) {
    for (const float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> x(128, 1.0F);
      x[3] = bad;
      const Encoded encoded = encode({isa, pool}, x, 128);
      EXPECT_FALSE(std::isfinite(encoded.scale(0, 0))) << name_of(isa);
    }
  }
}

TEST(EncodeRowsDeathTest, RefusesAScratchThatIsTooSmall) {
  ThreadPool pool(1);
  std::vector<float> x(128, 1.0F);
  Buffer scratch = *Buffer::allocate(EncodedRows::row_bytes(128, 1) - 1);
  EXPECT_DEATH(
      encode_rows({best_isa(), pool}, rows_of(x, 128), 1, scratch.bytes()), "the scratch holds"
  );
}

}  // namespace
}  // namespace millrace
