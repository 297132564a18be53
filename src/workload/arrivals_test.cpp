#include "workload/arrivals.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "workload/gamma_gaps.h"

namespace millrace::bench {
namespace {

using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The first `count` offsets, in seconds.
std::vector<double> offsets_of(const ArrivalOptions& options, size_t count) {
  Result<std::unique_ptr<Arrivals>> arrivals = make_arrivals(options);
  EXPECT_TRUE(arrivals) << arrivals.error().message;
  std::vector<double> seconds;
  while (seconds.size() < count) {
    const std::optional<nanoseconds> offset = (*arrivals)->next();
    if (!offset) break;
    seconds.push_back(static_cast<double>(offset->count()) * 1e-9);
  }
  return seconds;
}

std::vector<double> gaps_of(const std::vector<double>& offsets) {
  std::vector<double> gaps;
  double last = 0.0;
  for (const double offset : offsets) gaps.push_back(offset - std::exchange(last, offset));
  return gaps;
}

// sqrt(n) times the largest distance between the draws' distribution function and `cdf`.
double kolmogorov_smirnov(std::vector<double> draws, const std::function<double(double)>& cdf) {
  std::sort(draws.begin(), draws.end());
  const double n = static_cast<double>(draws.size());
  double distance = 0.0;
  for (size_t i = 0; i < draws.size(); ++i) {
    const double below = static_cast<double>(i) / n, expected = cdf(draws[i]);
    distance = std::max({distance, expected - below, below + 1.0 / n - expected});
  }
  return std::sqrt(n) * distance;
}
// Passed by 99.9 % of samples of the right distribution; the seeds are fixed, so a pass stays one.
constexpr double kCritical = 1.95;

// The regularised lower incomplete gamma function by its series; good where x is not far above a.
double gamma_cdf(double shape, double x) {
  if (x <= 0.0) return 0.0;
  double term = 1.0 / shape, sum = term;
  for (int k = 1; k < 2000 && term > sum * 1e-16; ++k) {
    term *= x / (shape + k);
    sum += term;
  }
  return std::min(1.0, sum * std::exp(-x + shape * std::log(x) - std::lgamma(shape)));
}

TEST(Arrivals, OfAConstantRateAreEquallySpacedFromTheStart) {
  const ArrivalOptions options{
      .kind = ArrivalKind::kConstant, .request_rate = 4.0, .num_requests = 5};
  EXPECT_THAT(offsets_of(options, 10), ElementsAre(0.0, 0.25, 0.5, 0.75, 1.0));
}

TEST(Arrivals, OfAConstantRateDoNotDrift) {
  Result<std::unique_ptr<Arrivals>> arrivals =
      make_arrivals({.kind = ArrivalKind::kConstant, .request_rate = 3.0});
  ASSERT_TRUE(arrivals);
  for (int i = 0; i < 3'000'000; ++i) (*arrivals)->next();
  EXPECT_EQ((*arrivals)->next(), nanoseconds(1'000'000'000'000'000));
}

TEST(Arrivals, OfInfiniteBurstinessAreEquallySpacedAfterOneGapAsInVllm) {
  const ArrivalOptions options{
      .request_rate = 4.0,
      .burstiness = std::numeric_limits<double>::infinity(),
      .num_requests = 4};
  EXPECT_THAT(offsets_of(options, 10), ElementsAre(0.25, 0.5, 0.75, 1.0));
}

TEST(Arrivals, OfBurstinessOneArePoisson) {
  for (const uint64_t seed : {0, 1, 2, 3, 4}) {
    const auto gaps = gaps_of(offsets_of({.request_rate = 25.0, .seed = seed}, 20'000));
    ASSERT_EQ(gaps.size(), 20'000U);
    const double distance =
        kolmogorov_smirnov(gaps, [](double x) { return 1.0 - std::exp(-25.0 * x); });
    EXPECT_LT(distance, kCritical) << "seed " << seed;
  }
}

TEST(Arrivals, GapsFollowTheGammaDistribution) {
  for (const double shape : {0.25, 0.5, 0.99, 1.01, 2.0, 3.5, 20.0}) {
    const double rate = 0.01;  // slow, so that rounding to nanoseconds is far below the gaps
    const auto gaps =
        gaps_of(offsets_of({.request_rate = rate, .burstiness = shape, .seed = 11}, 20'000));
    const double distance =
        kolmogorov_smirnov(gaps, [&](double x) { return gamma_cdf(shape, x * rate * shape); });
    EXPECT_LT(distance, kCritical) << "shape " << shape;
  }
}

TEST(GammaGaps, FollowTheDistributionDownToTinyShapes) {
  for (const double shape : {0.01, 0.05, 0.1, 1.0, 30.0}) {
    GammaGaps draws(shape, 5);
    std::vector<double> gaps(20'000);
    for (double& gap : gaps) gap = draws.next();
    const double distance =
        kolmogorov_smirnov(gaps, [&](double x) { return gamma_cdf(shape, x * shape); });
    EXPECT_LT(distance, kCritical) << "shape " << shape;
  }
}

TEST(Arrivals, TheTestOfDistributionsTellsNeighboursApart) {
  const auto gaps = gaps_of(offsets_of({.request_rate = 1.0, .burstiness = 2.0}, 20'000));
  EXPECT_GT(kolmogorov_smirnov(gaps, [](double x) { return gamma_cdf(1.8, x * 1.8); }), kCritical);
  EXPECT_GT(kolmogorov_smirnov(gaps, [](double x) { return gamma_cdf(2.0, x * 2.1); }), kCritical);
}

TEST(Arrivals, AHugeShapeIsNearlyConstant) {
  const auto gaps = gaps_of(offsets_of({.request_rate = 10.0, .burstiness = 1e12}, 1000));
  for (const double gap : gaps) EXPECT_NEAR(gap, 0.1, 1e-6);
}

TEST(Arrivals, GammaGapsAreIndependent) {
  const auto gaps = gaps_of(offsets_of({.request_rate = 1.0, .burstiness = 0.5}, 20'000));
  double covariance = 0.0, variance = 0.0;
  for (size_t i = 0; i + 1 < gaps.size(); ++i) {
    covariance += (gaps[i] - 1.0) * (gaps[i + 1] - 1.0);
    variance += (gaps[i] - 1.0) * (gaps[i] - 1.0);
  }
  EXPECT_LT(std::abs(covariance / variance), 0.025);  // 3.5 standard errors
}

TEST(Arrivals, RescaledOnesEndExactlyAtNumberOverRate) {
  for (const double shape : {0.3, 1.0, 4.0}) {
    for (const int64_t num_requests : {1, 2, 120, 5000}) {
      const auto offsets = offsets_of(
          {.request_rate = 7.0, .burstiness = shape, .num_requests = num_requests, .seed = 3},
          10'000
      );
      ASSERT_EQ(offsets.size(), static_cast<size_t>(num_requests));
      EXPECT_NEAR(offsets.back(), static_cast<double>(num_requests) / 7.0, 1.1e-9);
      EXPECT_TRUE(std::is_sorted(offsets.begin(), offsets.end()));
    }
  }
}

TEST(Arrivals, RescalingOnlyStretches) {
  ArrivalOptions options{.request_rate = 2.0, .num_requests = 500, .seed = 9};
  const auto stretched = offsets_of(options, 500);
  options.is_rescaled = false;
  const auto raw = offsets_of(options, 500);
  const double factor = stretched.back() / raw.back();
  EXPECT_GT(std::abs(factor - 1.0), 1e-3);
  for (size_t i = 0; i < raw.size(); ++i) EXPECT_NEAR(stretched[i], raw[i] * factor, 1e-8);
}

TEST(Arrivals, DependOnTheSeedAlone) {
  const ArrivalOptions options{.request_rate = 5.0, .burstiness = 0.7, .seed = 42};
  EXPECT_EQ(offsets_of(options, 1000), offsets_of(options, 1000));
  ArrivalOptions other = options;
  other.seed = 43;
  EXPECT_NE(offsets_of(options, 10), offsets_of(other, 10));
}

TEST(Arrivals, ARampGivesEachRequestItsRateAsInVllm) {
  ArrivalOptions options{
      .burstiness = std::numeric_limits<double>::infinity(),
      .num_requests = 4,
      .ramp = RampKind::kLinear,
      .ramp_start_rps = 1.0,
      .ramp_end_rps = 4.0};
  const auto linear = offsets_of(options, 9);  // rates 1, 2, 3, 4
  ASSERT_EQ(linear.size(), 4U);
  EXPECT_NEAR(linear[0], 1.0, 1e-9);
  EXPECT_NEAR(linear[1], 1.5, 1e-9);
  EXPECT_NEAR(linear[2], 1.5 + 1.0 / 3, 1e-9);
  EXPECT_NEAR(linear[3], 1.75 + 1.0 / 3, 1e-9);
  options.ramp = RampKind::kExponential;
  options.ramp_end_rps = 8.0;
  const auto exponential = offsets_of(options, 9);  // rates 1, 2, 4, 8
  ASSERT_EQ(exponential.size(), 4U);
  EXPECT_NEAR(exponential[3], 1.875, 1e-8);
  options.num_requests = 1;
  EXPECT_THAT(offsets_of(options, 9), ElementsAre(1.0));
}

TEST(Arrivals, ARampOfGammaGapsIsNotRescaled) {
  const ArrivalOptions ramp{
      .num_requests = 20'000,
      .ramp = RampKind::kLinear,
      .ramp_start_rps = 10.0,
      .ramp_end_rps = 20.0,
      .seed = 1};
  std::vector<double> gaps = gaps_of(offsets_of(ramp, 20'000));
  for (size_t i = 0; i < gaps.size(); ++i) gaps[i] *= 10.0 + 10.0 * static_cast<double>(i) / 19'999;
  EXPECT_LT(kolmogorov_smirnov(gaps, [](double x) { return 1.0 - std::exp(-x); }), kCritical);
}

TEST(Arrivals, AConstantRateWithARampStartsAtOnce) {
  const ArrivalOptions options{
      .kind = ArrivalKind::kConstant,
      .num_requests = 3,
      .ramp = RampKind::kLinear,
      .ramp_start_rps = 1.0,
      .ramp_end_rps = 4.0};
  EXPECT_THAT(offsets_of(options, 9), ElementsAre(0.0, 0.4, 0.65));  // rates 1, 2.5, 4
}

TEST(Arrivals, ARampUpRisesFromNothingToTheRateAsInGuidellm) {
  const ArrivalOptions options{
      .kind = ArrivalKind::kConstant, .request_rate = 10.0, .rampup_seconds = 4.0};
  const auto offsets = offsets_of(options, 31);  // 20 requests fall into the ramp
  EXPECT_EQ(offsets[0], 0.0);
  for (size_t i = 0; i <= 20; ++i) {
    EXPECT_NEAR(offsets[i], std::sqrt(0.8 * static_cast<double>(i)), 1e-9) << i;
  }
  EXPECT_NEAR(offsets[20], 4.0, 1e-9);
  EXPECT_NEAR(offsets[30], 5.0, 1e-9);
}

TEST(Arrivals, EndAfterTheNumberAskedFor) {
  EXPECT_TRUE(offsets_of({.num_requests = 0}, 5).empty());
  Result<std::unique_ptr<Arrivals>> arrivals = make_arrivals({.num_requests = 1});
  ASSERT_TRUE(arrivals);
  EXPECT_TRUE((*arrivals)->next());
  EXPECT_FALSE((*arrivals)->next());
  EXPECT_FALSE((*arrivals)->next());
}

TEST(Arrivals, OfAnAbsurdRateStayTimes) {
  for (const ArrivalKind kind : {ArrivalKind::kConstant, ArrivalKind::kGamma}) {
    const auto slow = offsets_of({.kind = kind, .request_rate = 1e-300}, 3);
    EXPECT_EQ(slow[2], static_cast<double>(kArrivalMax.count()) * 1e-9);
    const auto fast = offsets_of({.kind = kind, .request_rate = 1e300, .num_requests = 3}, 3);
    EXPECT_EQ(fast[2], 0.0);
    const auto spiky = offsets_of({.kind = kind, .burstiness = 1e-6, .num_requests = 3}, 3);
    EXPECT_TRUE(std::is_sorted(spiky.begin(), spiky.end()));
  }
}

TEST(Arrivals, RefuseWhatMakesNoSenseByName) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const auto refusal = [](const ArrivalOptions& options) {
    const Result<std::unique_ptr<Arrivals>> made = make_arrivals(options);
    return made ? std::string("no error") : made.error().where + ": " + made.error().message;
  };
  for (const double rate : {0.0, -1.0, nan, infinity}) {
    EXPECT_THAT(refusal({.request_rate = rate}), HasSubstr("--request-rate"));
  }
  for (const double burstiness : {0.0, -1.0, nan}) {
    EXPECT_THAT(refusal({.burstiness = burstiness}), HasSubstr("--burstiness"));
  }
  EXPECT_THAT(refusal({.num_requests = -1}), HasSubstr("--num-prompts"));
  ArrivalOptions ramp{.ramp = RampKind::kLinear, .ramp_start_rps = 1.0, .ramp_end_rps = 2.0};
  EXPECT_THAT(refusal(ramp), HasSubstr("--ramp-up-strategy"));
  ramp.num_requests = 5;
  EXPECT_EQ(refusal(ramp), "no error");
  ramp.ramp_start_rps = 0.0;
  EXPECT_THAT(refusal(ramp), HasSubstr("--ramp-up-start-rps"));
  ramp.ramp_start_rps = 1.0;
  ramp.ramp_end_rps = infinity;
  EXPECT_THAT(refusal(ramp), HasSubstr("--ramp-up-end-rps"));
  EXPECT_THAT(refusal({.rampup_seconds = 1.0}), HasSubstr("constant"));
  EXPECT_THAT(refusal({.kind = ArrivalKind::kConstant, .rampup_seconds = nan}), HasSubstr("ramp"));
}

}  // namespace
}  // namespace millrace::bench
