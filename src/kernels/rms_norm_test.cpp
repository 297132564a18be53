#include "kernels/rms_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/test_data.h"

namespace millrace {
namespace {

std::vector<float> normalized(
    const Executor& executor, std::vector<float> x, std::span<const float> weight, float eps
) {
  std::vector<float> out(x.size());
  rms_norm(
      executor,
      {.x = rows_of(x, weight.size()),
       .weight = weight,
       .eps = eps,
       .out = rows_of(out, weight.size())}
  );
  return out;
}

TEST(RmsNorm, DividesByTheRootMeanSquareAndMultipliesByTheWeight) {
  ThreadPool pool(1);
  const std::vector<float> x = random_floats(5 * 37, 1);
  const std::vector<float> weight = random_floats(37, 2);
  const std::vector<float> out = normalized({Isa::kReference, pool}, x, weight, 1e-5F);
  for (size_t row = 0; row < 5; ++row) {
    double sum = 0.0;
    for (size_t i = 0; i < 37; ++i) sum += std::pow(static_cast<double>(x[row * 37 + i]), 2.0);
    for (size_t i = 0; i < 37; ++i) {
      const double exact = static_cast<double>(x[row * 37 + i]) / std::sqrt(sum / 37 + 1e-5) *
                           static_cast<double>(weight[i]);
      EXPECT_NEAR(out[row * 37 + i], exact, 1e-6);
    }
  }
}

TEST(RmsNorm, HasTheSameBitsOnEveryInstructionSetAndThreadCount) {
  ThreadPool one(1);
  ThreadPool two(2);
  for (const size_t num_columns : {1UL, 8UL, 15UL, 16UL, 17UL, 64UL, 80UL, 896UL}) {
    for (const size_t num_rows : {1UL, 2UL, 9UL}) {
      const std::vector<float> x = random_floats(num_rows * num_columns, 3);
      const std::vector<float> weight = random_floats(num_columns, 4);
      const std::vector<float> expected = normalized({Isa::kReference, one}, x, weight, 1e-6F);
      for (const Isa isa : supported_isas()) {
        EXPECT_EQ(bits_of(normalized({isa, one}, x, weight, 1e-6F)), bits_of(expected));
        EXPECT_EQ(bits_of(normalized({isa, two}, x, weight, 1e-6F)), bits_of(expected))
            << name_of(isa) << ' ' << num_columns;
      }
    }
  }
}

TEST(RmsNorm, WorksInPlaceAndKeepsZerosFinite) {
  ThreadPool pool(1);
  const std::vector<float> weight = random_floats(20, 5);
  for (const Isa isa : supported_isas()) {
    std::vector<float> x = random_floats(40, 6);
    std::fill(x.begin(), x.begin() + 20, 0.0F);
    const std::vector<float> expected = normalized({Isa::kReference, pool}, x, weight, 1e-6F);
    rms_norm(
        {isa, pool}, {.x = rows_of(x, 20), .weight = weight, .eps = 1e-6F, .out = rows_of(x, 20)}
    );
    EXPECT_EQ(x, expected);
    EXPECT_EQ(x[3], 0.0F);
  }
}

}  // namespace
}  // namespace millrace
