#include "quantization/feedback.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "kernels/quantized/quantized_test_data.h"

namespace millrace {
namespace {

// Of 3 * size random rows in which neighbours go together; inputs past `num_used` are zero.
std::vector<float> random_moments(size_t size, size_t num_used, uint64_t seed) {
  std::vector<double> sums(size * size);
  for (size_t token = 0; token < 3 * size; ++token) {
    std::vector<float> row = random_floats(size, seed + token);
    for (size_t i = 1; i < size; ++i) row[i] += 0.8F * row[i - 1];
    for (size_t i = num_used; i < size; ++i) row[i] = 0.0F;
    for (size_t i = 0; i < size; ++i) {
      for (size_t j = 0; j < size; ++j) {
        sums[i * size + j] += static_cast<double>(row[i]) * static_cast<double>(row[j]);
      }
    }
  }
  return {sums.begin(), sums.end()};
}

BlockMoments one_block(std::vector<float> moments) {
  const auto size = static_cast<size_t>(std::lround(std::sqrt(moments.size())));
  return {.num_inputs = size, .blocks = {std::move(moments)}};
}

// S M S^T from the definition of the Walsh-Hadamard transform, with M divided and the result
// damped.
std::vector<double> seen_by_kernel(
    const std::vector<float>& moments, size_t size, std::span<const float> divisors, size_t rotation
) {
  const auto sign = [&](size_t i, size_t j) {
    if (i / rotation != j / rotation) return 0.0;
    return std::popcount(i % rotation & j % rotation) % 2 == 0 ? 1.0 : -1.0;
  };
  const auto divisor = [&](size_t i) {
    return i < divisors.size() ? static_cast<double>(divisors[i]) : 1.0;
  };
  std::vector<double> half(size * size);
  std::vector<double> seen(size * size);
  for (size_t i = 0; i < size; ++i) {
    for (size_t j = 0; j < size; ++j) {
      for (size_t k = 0; k < size; ++k) {
        const auto moment = static_cast<double>(moments[i * size + k]);
        half[i * size + j] += moment / (divisor(i) * divisor(k)) * sign(j, k);
      }
    }
  }
  double trace = 0.0;
  for (size_t i = 0; i < size; ++i) {
    for (size_t j = 0; j < size; ++j) {
      for (size_t k = 0; k < size; ++k) seen[i * size + j] += sign(i, k) * half[k * size + j];
    }
    trace += seen[i * (size + 1)];
  }
  for (size_t i = 0; i < size; ++i) {
    seen[i * (size + 1)] += kFeedbackDamping * trace / static_cast<double>(size);
  }
  return seen;
}

// `factors`: of one block, [size, stride].
void expect_factors(
    std::span<const float> factors, size_t stride, const std::vector<double>& h, size_t size
) {
  const std::vector<double> r = upper_factor(h, size);
  double largest_error = 0.0;
  double largest = 0.0;
  for (size_t c = 0; c < size; ++c) {
    for (size_t j = 0; j < c; ++j) {
      const double expected = r[j * size + c] / r[c * (size + 1)];
      const auto found = static_cast<double>(factors[c * stride + j]);
      ASSERT_TRUE(std::isfinite(found));
      largest_error = std::max(largest_error, std::abs(found - expected));
      largest = std::max(largest, std::abs(expected));
    }
  }
  EXPECT_LT(largest_error, 1e-4) << size;
  EXPECT_GT(largest, 0.05) << "the test's inputs go together";
}

std::vector<float> random_divisors(size_t size) {
  std::vector<float> divisors = random_floats(size, 3);
  for (float& divisor : divisors) divisor = std::exp2(2.0F * divisor);
  return divisors;
}

TEST(Feedback, IsTheUpperFactorOfWhatTheKernelSees) {
  ThreadPool pool(2);
  for (const size_t num_inputs : {64, 128, 192, 300, 40}) {
    const size_t size = round_up(num_inputs, size_t{64});
    const std::vector<float> moments = random_moments(size, num_inputs, 10);
    const std::vector<float> divisors = random_divisors(num_inputs);
    const size_t rotation = rotation_size(num_inputs);
    const ErrorFeedback feedback = feedback_of(one_block(moments), divisors, pool);
    EXPECT_EQ(feedback.block_size, size);
    ASSERT_EQ(feedback.factors.size(), size * size);
    expect_factors(feedback.factors, size, seen_by_kernel(moments, size, divisors, rotation), size);
  }
}

TEST(Feedback, OfSeveralBlocksStaysWithinThem) {
  ThreadPool pool(2);
  constexpr size_t kBlock = BlockMoments::kBlock;
  constexpr size_t kRest = 128;
  const size_t num_inputs = kBlock + 100;
  const std::vector<float> rest = random_moments(kRest, 100, 20);
  const std::vector<float> divisors = random_divisors(num_inputs);
  const BlockMoments moments{
      .num_inputs = kBlock + kRest, .blocks = {std::vector<float>(kBlock * kBlock), rest}};
  const ErrorFeedback feedback = feedback_of(moments, divisors, pool);
  EXPECT_EQ(feedback.block_size, kBlock);
  ASSERT_EQ(feedback.factors.size(), 2 * kBlock * kBlock);
  const auto first = std::span(feedback.factors).first(kBlock * kBlock);
  EXPECT_TRUE(std::ranges::all_of(first, [](float factor) { return factor == 0.0F; }));
  const auto own = std::span(divisors).subspan(kBlock);
  expect_factors(
      std::span(feedback.factors).subspan(kBlock * kBlock),
      kBlock,
      seen_by_kernel(rest, kRest, own, rotation_size(num_inputs)),
      kRest
  );
}

TEST(Feedback, IsNothingWithoutMoments) {
  ThreadPool pool(2);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float spoilt : {0.0F, kInfinity, -kInfinity, kInfinity - kInfinity}) {
    std::vector<float> moments(128 * 128);
    if (spoilt != 0.0F) moments = random_moments(128, 128, 30);
    moments[70 * 129] = spoilt;
    const std::vector<float> divisors = random_divisors(128);
    const ErrorFeedback feedback = feedback_of(one_block(moments), divisors, pool);
    ASSERT_EQ(feedback.factors.size(), 128U * 128U);
    for (const float factor : feedback.factors) ASSERT_EQ(factor, 0.0F) << spoilt;
  }
}

TEST(Feedback, HasTheSameBitsWithAnyNumberOfThreads) {
  for (const size_t size : {64, 320}) {
    const BlockMoments moments = one_block(random_moments(size, size, 40));
    const std::vector<float> divisors = random_divisors(size);
    ThreadPool one(1);
    const ErrorFeedback expected = feedback_of(moments, divisors, one);
    for (const size_t num_threads : {2, 3, 5}) {
      ThreadPool pool(num_threads);
      const ErrorFeedback found = feedback_of(moments, divisors, pool);
      EXPECT_EQ(bits_of(found.factors), bits_of(expected.factors)) << num_threads;
    }
  }
}

}  // namespace
}  // namespace millrace
