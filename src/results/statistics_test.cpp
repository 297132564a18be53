#include "results/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/json.h"

namespace millrace::bench {
namespace {

json::object golden() {
  const Result<json::value> value =
      read_json_file(MILLRACE_SOURCE_DIR "/tests/golden/bench/statistics.json");
  EXPECT_TRUE(value.ok()) << value.error().message;
  return value->as_object();
}

std::vector<double> numbers(const json::value& array) {
  std::vector<double> values;
  for (const json::value& value : array.as_array()) values.push_back(value.to_number<double>());
  return values;
}

std::vector<Sample> sorted(const std::vector<double>& values) {
  std::vector<Sample> samples;
  for (const double value : values) samples.push_back({.value = value});
  sort_samples(samples);
  return samples;
}

TEST(Statistics, PercentilesAreNumpysToTheBit) {
  const double ranks[] = {0.1, 1, 5, 10, 25, 50, 75, 90, 95, 99, 99.9};
  const json::object file = golden();
  for (const json::value& entry : file.at("samples").as_array()) {
    const std::vector<Sample> samples = sorted(numbers(entry.at("values")));
    const std::vector<double> expected = numbers(entry.at("percentiles"));
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_DOUBLE_EQ(percentile(samples, ranks[i], Quantiles::kLinear), expected[i]);
    }
    const Moments of = moments(samples);
    EXPECT_NEAR(of.mean, entry.at("mean").to_number<double>(), 1e-9);
    EXPECT_NEAR(of.std, entry.at("std").to_number<double>(), 1e-9);
  }
}

TEST(Statistics, AWeightIsHowOftenAValueStandsThere) {
  std::vector<Sample> weighted;
  std::vector<double> repeated;
  for (int i = 0; i < 40; ++i) {
    const double value = (i * 37) % 41;
    const int times = i % 5;
    weighted.push_back({.value = value, .weight = double(times)});
    repeated.insert(repeated.end(), size_t(times), value);
  }
  sort_samples(weighted);
  const std::vector<Sample> plain = sorted(repeated);
  for (double rank = 0; rank <= 100; rank += 0.5) {
    EXPECT_DOUBLE_EQ(
        percentile(weighted, rank, Quantiles::kLinear), percentile(plain, rank, Quantiles::kLinear)
    ) << rank;
  }
  EXPECT_NEAR(moments(weighted).std, moments(plain).std, 1e-12);
}

TEST(Statistics, TheWeightedCdfTakesTheFirstValueThatReachesTheRank) {
  std::vector<Sample> samples = {
      {.value = 3, .weight = 1},
      {.value = 1, .weight = 2},
      {.value = 2, .weight = 0},
      {.value = 4, .weight = 1}};
  sort_samples(samples);
  EXPECT_EQ(percentile(samples, 10, Quantiles::kWeightedCdf), 1);
  EXPECT_EQ(percentile(samples, 50, Quantiles::kWeightedCdf), 1);
  EXPECT_EQ(percentile(samples, 51, Quantiles::kWeightedCdf), 3);
  EXPECT_EQ(percentile(samples, 75, Quantiles::kWeightedCdf), 3);
  EXPECT_EQ(percentile(samples, 100, Quantiles::kWeightedCdf), 4);
}

TEST(Statistics, SurvivalWithoutCensoringIsTheEmpiricalDistribution) {
  const Survival estimate = survival(sorted({4, 1, 3, 2}));
  EXPECT_EQ(estimate.percentile(25), 1);
  EXPECT_EQ(estimate.percentile(26), 2);
  EXPECT_EQ(estimate.percentile(100), 4);
  EXPECT_NEAR(estimate.moments().mean, 2.5, 1e-12);
  EXPECT_EQ(estimate.share_beyond, 0.0);
}

// The remission times of 21 patients that every text on survival has (Freireich et al. 1963):
// S(6) = 0.857, S(10) = 0.753, S(23) = 0.448.
TEST(Statistics, SurvivalGivesTheTextbooksNumbers) {
  std::vector<Sample> samples;
  for (const double t : {6, 6, 6, 7, 10, 13, 16, 22, 23}) samples.push_back({.value = t});
  for (const double t : {6, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35}) {
    samples.push_back({.value = t, .is_censored = true});
  }
  sort_samples(samples);
  const Survival estimate = survival(samples);
  double surviving = 1.0;
  const auto surviving_at = [&](double time) {
    surviving = 1.0;
    for (const auto& step : estimate.steps) surviving -= step.value <= time ? step.share : 0.0;
    return surviving;
  };
  EXPECT_NEAR(surviving_at(6), 0.8571, 5e-5);
  EXPECT_NEAR(surviving_at(7), 0.8067, 5e-5);
  EXPECT_NEAR(surviving_at(10), 0.7529, 5e-5);
  EXPECT_NEAR(surviving_at(13), 0.6902, 5e-5);
  EXPECT_NEAR(surviving_at(16), 0.6275, 5e-5);
  EXPECT_NEAR(surviving_at(22), 0.5378, 5e-5);
  EXPECT_NEAR(surviving_at(23), 0.4482, 5e-5);
  EXPECT_EQ(estimate.percentile(50), 23);
  EXPECT_EQ(estimate.percentile(56), std::numeric_limits<double>::infinity());
  EXPECT_NEAR(estimate.share_beyond, 0.4482, 5e-5);
}

TEST(Statistics, StudentsDistributionIsScipys) {
  const json::object file = golden();
  for (const json::value& entry : file.at("student_t").as_array()) {
    const std::vector<double> row = numbers(entry);
    EXPECT_NEAR(student_t_two_sided(row[0], row[1]), row[2], 1e-9 * row[2] + 1e-300)
        << row[0] << " " << row[1];
    EXPECT_EQ(student_t_two_sided(-row[0], row[1]), student_t_two_sided(row[0], row[1]));
  }
  for (const json::value& entry : file.at("student_t_quantile").as_array()) {
    const std::vector<double> row = numbers(entry);
    EXPECT_NEAR(student_t_quantile(row[0], row[1]), row[2], 1e-9 * row[2]);
  }
  for (const json::value& entry : file.at("incomplete_beta").as_array()) {
    const std::vector<double> row = numbers(entry);
    EXPECT_NEAR(incomplete_beta(row[0], row[1], row[2]), row[3], 1e-11 * row[3] + 1e-300);
  }
}

TEST(Statistics, ASlopeIsScipys) {
  const json::object file = golden();
  const json::object& line = file.at("slope").as_object();
  const auto fit = fit_slope(numbers(line.at("x")), numbers(line.at("y")));
  ASSERT_TRUE(fit.has_value());
  EXPECT_NEAR(fit->slope, line.at("slope").to_number<double>(), 1e-12);
  EXPECT_NEAR(fit->intercept, line.at("intercept").to_number<double>(), 1e-12);
  EXPECT_NEAR(fit->p_value, line.at("p").to_number<double>(), 1e-10);
}

TEST(Statistics, ASlopeNeedsThreePointsAtTwoPlaces) {
  const double x[] = {1, 1, 1};
  const double y[] = {1, 2, 3};
  EXPECT_FALSE(fit_slope(x, y).has_value());
  EXPECT_FALSE(fit_slope(std::span(y).first(2), std::span(x).first(2)).has_value());
  EXPECT_EQ(fit_slope(y, x)->p_value, 1.0);
  EXPECT_EQ(fit_slope(y, y)->p_value, 0.0);
}

}  // namespace
}  // namespace millrace::bench
