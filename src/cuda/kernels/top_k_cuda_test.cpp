#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cuda/kernels/cuda_test_data.h"
#include "cuda/kernels/thread_orders.h"
#include "cuda/kernels/top_k.h"

namespace millrace::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Results {
  std::vector<uint32_t> values;  // bits
  std::vector<int32_t> ids;
  std::vector<uint32_t> sums;  // bits of maximum, sum of each row
  friend bool operator==(const Results&, const Results&) = default;
};

// `rows`: which; null: all.
Results largest(
    const std::vector<float>& logits,
    size_t num_columns,
    size_t k,
    const std::vector<int32_t>* rows = nullptr
) {
  const size_t num_rows = rows == nullptr ? logits.size() / num_columns : rows->size();
  const DeviceArray<int32_t> device_rows(rows == nullptr ? std::vector<int32_t>{} : *rows);
  const DeviceArray<float> device_logits(logits);
  const DeviceArray<float> values(num_rows * k);
  const DeviceArray<int32_t> ids(num_rows * k);
  const DeviceArray<RowSum> sums(num_rows);
  const DeviceArray<std::byte> scratch(top_k_scratch_bytes(num_rows, num_columns, k));
  top_k(
      {},
      {.logits = device_logits.data(),
       .rows = rows == nullptr ? nullptr : device_rows.data(),
       .num_rows = num_rows,
       .num_columns = num_columns,
       .k = k,
       .values = values.data(),
       .ids = ids.data(),
       .sums = sums.data(),
       .scratch = scratch.data()}
  );
  std::vector<float> flat;
  for (const RowSum& sum : sums.read()) flat.insert(flat.end(), {sum.maximum, sum.sum});
  return {bits_of(values.read()), ids.read(), bits_of(flat)};
}

// Ids of a row, largest first, of equal ones the lowest.
std::vector<int32_t> sorted_ids(const float* row, size_t num_columns) {
  std::vector<int32_t> ids(num_columns);
  std::iota(ids.begin(), ids.end(), 0);
  const auto value = [&](int32_t id) { return std::isnan(row[id]) ? -kInfinity : row[id]; };
  std::stable_sort(ids.begin(), ids.end(), [&](int32_t a, int32_t b) {
    return value(a) > value(b);
  });
  return ids;
}

TEST(TopKOnDevice, FindsTheLargestInOrderWithTheirSum) {
  struct Case {
    size_t num_columns;
    size_t k;
  };
  const Case kCases[] = {
      {1, 1}, {5, 5}, {64, 64}, {1000, 1}, {8192, 20}, {8193, 64}, {40000, 1}, {151936, 5}};
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << c.num_columns << ", " << c.k);
    std::vector<float> logits = random_floats(3 * c.num_columns, 5);
    // Many equal ones, all over the row.
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = std::round(logits[i] * 500.0F) / 50.0F;
    const Results results =
        same_in_every_thread_order([&] { return largest(logits, c.num_columns, c.k); });
    for (size_t row = 0; row < 3; ++row) {
      const float* const of_row = &logits[row * c.num_columns];
      const std::vector<int32_t> ids = sorted_ids(of_row, c.num_columns);
      for (size_t i = 0; i < c.k; ++i) {
        ASSERT_EQ(results.ids[row * c.k + i], ids[i]) << row << ", " << i;
        const float value = std::bit_cast<float>(results.values[row * c.k + i]);
        ASSERT_EQ(value, of_row[static_cast<size_t>(ids[i])]);
      }
      double sum = 0.0;
      for (size_t i = 0; i < c.num_columns; ++i) {
        sum += std::exp(double{of_row[i]} - of_row[static_cast<size_t>(ids[0])]);
      }
      EXPECT_EQ(std::bit_cast<float>(results.sums[2 * row]), of_row[static_cast<size_t>(ids[0])]);
      EXPECT_NEAR(std::bit_cast<float>(results.sums[2 * row + 1]), sum, sum * 1e-5);
    }
  }
}

TEST(TopKOnDevice, DoesNotDependOnTheOtherRows) {
  constexpr size_t kColumns = 20000;
  const std::vector<float> logits = random_floats(3 * kColumns, 6);
  const Results all = largest(logits, kColumns, 8);
  for (size_t row = 0; row < 3; ++row) {
    const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row * kColumns);
    const Results alone = largest({begin, begin + kColumns}, kColumns, 8);
    EXPECT_TRUE(std::equal(alone.values.begin(), alone.values.end(), &all.values[row * 8]));
    EXPECT_TRUE(std::equal(alone.ids.begin(), alone.ids.end(), &all.ids[row * 8]));
    EXPECT_TRUE(std::equal(alone.sums.begin(), alone.sums.end(), &all.sums[row * 2]));
  }
}

TEST(TopKOnDevice, TakesTheRowsThatItIsTold) {
  constexpr size_t kColumns = 9000;
  const std::vector<float> logits = random_floats(4 * kColumns, 7);
  const Results all = largest(logits, kColumns, 3);
  const std::vector<int32_t> rows = {3, 1};
  const Results some = largest(logits, kColumns, 3, &rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = static_cast<size_t>(rows[i]);
    EXPECT_TRUE(std::equal(&some.ids[i * 3], &some.ids[i * 3] + 3, &all.ids[row * 3]));
    EXPECT_TRUE(std::equal(&some.values[i * 3], &some.values[i * 3] + 3, &all.values[row * 3]));
    EXPECT_TRUE(std::equal(&some.sums[i * 2], &some.sums[i * 2] + 2, &all.sums[row * 2]));
  }
}

TEST(TopKOnDevice, TakesNanAndMinusInfinityLast) {
  std::vector<float> logits(9000, -kInfinity);
  logits[3] = std::numeric_limits<float>::quiet_NaN();
  logits[8999] = 2.0F;
  logits[17] = 1.0F;
  const Results results = largest(logits, 9000, 5);
  EXPECT_EQ(results.ids, (std::vector<int32_t>{8999, 17, 0, 1, 2}));
  EXPECT_EQ(std::bit_cast<float>(results.sums[0]), 2.0F);
  EXPECT_NEAR(std::bit_cast<float>(results.sums[1]), 1.0 + std::exp(-1.0), 1e-6);

  const Results nothing = largest(std::vector<float>(9000, -kInfinity), 9000, 2);
  EXPECT_EQ(nothing.ids, (std::vector<int32_t>{0, 1}));
  EXPECT_EQ(std::bit_cast<float>(nothing.sums[0]), -kInfinity);
  EXPECT_EQ(std::bit_cast<float>(nothing.sums[1]), 0.0F);
}

TEST(TopKOnDeviceDeathTest, RefusesMoreThanThereAre) {
  EXPECT_DEATH(largest({1.0F, 2.0F}, 2, 3), "as many as there are");
  EXPECT_DEATH(largest(std::vector<float>(100), 100, 65), "as many as there are");
}

}  // namespace
}  // namespace millrace::cuda
