#include "results/bootstrap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/rng.h"

namespace millrace::bench {
namespace {

// Roughly normal: the sum of twelve uniform draws.
double normal(Rng& rng) {
  double sum = -6.0;
  for (int i = 0; i < 12; ++i) sum += rng.unit();
  return sum;
}

std::vector<Sample> normal_samples(uint64_t seed, size_t n) {
  Rng rng(seed);
  std::vector<Sample> samples;
  for (size_t i = 0; i < n; ++i) {
    samples.push_back({.value = 100.0 + normal(rng), .request = static_cast<uint32_t>(i)});
  }
  sort_samples(samples);
  return samples;
}

TEST(BlockBootstrap, GivesTheSameIntervalsEachTime) {
  const std::vector<Sample> samples = normal_samples(1, 500);
  const double ranks[] = {50, 99};
  const BlockBootstrap::Options options{.num_requests = 500, .seed = 4};
  const auto a = BlockBootstrap(options).intervals(samples, ranks, Quantiles::kLinear);
  const auto b = BlockBootstrap(options).intervals(samples, ranks, Quantiles::kLinear);
  ASSERT_TRUE(a.mean && b.mean && a.percentiles[1] && b.percentiles[1]);
  EXPECT_EQ(a.mean->low, b.mean->low);
  EXPECT_EQ(a.percentiles[1]->high, b.percentiles[1]->high);
}

// Of independent samples the mean's interval is +-1.96 / sqrt(n), and holds the truth 19 times
// of 20.
TEST(BlockBootstrap, CoversTheTruthAsOftenAsItSays) {
  const double ranks[] = {50, 90};
  int num_mean = 0;
  int num_median = 0;
  int num_p90 = 0;
  double width = 0.0;
  constexpr int kRuns = 400;
  for (int run = 0; run < kRuns; ++run) {
    const std::vector<Sample> samples = normal_samples(uint64_t(run) + 10, 400);
    const BlockBootstrap bootstrap(
        {.num_requests = 400, .num_resamples = 400, .seed = uint64_t(run)}
    );
    const auto intervals = bootstrap.intervals(samples, ranks, Quantiles::kLinear);
    width += (intervals.mean->high - intervals.mean->low) / kRuns;
    const auto covers = [](const std::optional<Interval>& interval, double truth) {
      return interval->low <= truth && truth <= interval->high ? 1 : 0;
    };
    num_mean += covers(intervals.mean, 100.0);
    num_median += covers(intervals.percentiles[0], 100.0);
    num_p90 += covers(intervals.percentiles[1], 101.2816);
  }
  EXPECT_NEAR(width, 2 * 1.96 / std::sqrt(400.0), 0.015);
  EXPECT_GT(num_mean, kRuns * 0.91);
  EXPECT_GT(num_median, kRuns * 0.91);
  EXPECT_GT(num_p90, kRuns * 0.90);
  EXPECT_LT(num_mean, kRuns * 0.985);
}

TEST(BlockBootstrap, IsWiderWhereNeighboursAreAlike) {
  // The same values, once in runs of ten and once shuffled.
  std::vector<Sample> runs;
  std::vector<Sample> shuffled;
  Rng rng(3);
  double level = 0.0;
  for (uint32_t i = 0; i < 1000; ++i) {
    if (i % 10 == 0) level = normal(rng);
    const double value = level + 0.1 * normal(rng);
    runs.push_back({.value = value, .request = i});
    shuffled.push_back({.value = value, .request = i * 7919 % 1000});
  }
  sort_samples(runs);
  sort_samples(shuffled);
  const BlockBootstrap bootstrap({.num_requests = 1000});
  const auto wide = bootstrap.intervals(runs, {}, Quantiles::kLinear).mean;
  const auto narrow = bootstrap.intervals(shuffled, {}, Quantiles::kLinear).mean;
  EXPECT_GT(wide->high - wide->low, 2.0 * (narrow->high - narrow->low));
}

// A resample's percentile by its stretches is that of the resample written out.
TEST(BlockBootstrap, TakesWeightsAsRepeats) {
  std::vector<Sample> weighted;
  std::vector<Sample> repeated;
  Rng rng(5);
  for (uint32_t i = 0; i < 200; ++i) {
    for (int j = 0; j < 20; ++j) {
      const double value = normal(rng);
      const auto times = static_cast<int>(rng.below(4));
      weighted.push_back({.value = value, .weight = double(times), .request = i});
      for (int k = 0; k < times; ++k) repeated.push_back({.value = value, .request = i});
    }
  }
  sort_samples(weighted);
  sort_samples(repeated);
  const double ranks[] = {1, 25, 50, 90, 99, 99.9};
  const BlockBootstrap bootstrap({.num_requests = 200, .num_resamples = 200});
  for (const Quantiles quantiles : {Quantiles::kLinear, Quantiles::kWeightedCdf}) {
    const auto a = bootstrap.intervals(weighted, ranks, quantiles);
    const auto b = bootstrap.intervals(repeated, ranks, quantiles);
    for (size_t i = 0; i < std::size(ranks); ++i) {
      ASSERT_TRUE(a.percentiles[i] && b.percentiles[i]);
      EXPECT_DOUBLE_EQ(a.percentiles[i]->low, b.percentiles[i]->low) << ranks[i];
      EXPECT_DOUBLE_EQ(a.percentiles[i]->high, b.percentiles[i]->high) << ranks[i];
    }
  }
}

TEST(BlockBootstrap, HoldsBackWhatFewSamplesCannotSay) {
  const double ranks[] = {1, 50, 99, 99.9};
  const auto at = [&](size_t n) {
    const BlockBootstrap bootstrap({.num_requests = n});
    return bootstrap.intervals(normal_samples(2, n), ranks, Quantiles::kLinear).percentiles;
  };
  EXPECT_FALSE(at(299)[2].has_value());
  EXPECT_TRUE(at(299)[1].has_value());
  EXPECT_TRUE(at(300)[2].has_value());
  EXPECT_TRUE(at(300)[0].has_value());
  EXPECT_FALSE(at(300)[3].has_value());
  EXPECT_FALSE(at(7)[1].has_value());
}

TEST(BlockBootstrap, IsNotPossibleWithoutResamples) {
  const BlockBootstrap none({.num_requests = 100, .num_resamples = 0});
  EXPECT_FALSE(none.is_possible());
  EXPECT_FALSE(none.intervals(normal_samples(1, 100), {}, Quantiles::kLinear).mean.has_value());
}

TEST(BlockBootstrap, KeepsCensoredSamplesCensored) {
  std::vector<Sample> samples = normal_samples(8, 400);
  const double ranks[] = {50, 90, 99};
  const BlockBootstrap bootstrap({.num_requests = 400, .num_resamples = 200});
  for (Sample& sample : samples) sample.is_censored = sample.value > 101.5;
  sort_samples(samples);
  const auto intervals = bootstrap.intervals(samples, ranks, Quantiles::kLinear);
  ASSERT_TRUE(intervals.percentiles[0] && intervals.percentiles[2]);
  EXPECT_NEAR(intervals.percentiles[0]->low, 99.9, 0.15);
  EXPECT_NEAR(intervals.percentiles[0]->high, 100.1, 0.15);
  // All that is known of the longest is that they are longer.
  EXPECT_EQ(intervals.percentiles[2]->high, std::numeric_limits<double>::infinity());
}

TEST(BlockBootstrap, GivesTheIntervalOfASum) {
  const BlockBootstrap bootstrap({.num_requests = 1000});
  const std::vector<double> equal(bootstrap.num_blocks(), 2.0);
  const auto interval = bootstrap.sum_interval(equal);
  EXPECT_EQ(interval->low, 2.0 * double(bootstrap.num_blocks()));
  EXPECT_EQ(interval->high, interval->low);
}

}  // namespace
}  // namespace millrace::bench
