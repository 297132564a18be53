#include "base/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

namespace millrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Metrics, CountFromManyThreadsWithoutLoss) {
  constexpr int kNumThreads = 4;
  constexpr int kNumRounds = 20000;
  Counter counter;
  Histogram histogram({1.0, 2.0}, 1);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kNumThreads; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < kNumRounds; ++i) {
          counter.add();
          histogram.observe(i % 4);
        }
      });
    }
  }
  EXPECT_EQ(counter.value(), kNumThreads * kNumRounds);
  const HistogramReading reading = histogram.read();
  EXPECT_THAT(reading.counts, ElementsAre(40000, 20000, 20000));
  EXPECT_EQ(reading.sum, 120000.0);
  EXPECT_EQ(reading.count(), kNumThreads * kNumRounds);
}

TEST(Metrics, ABucketHoldsItsUpperBound) {
  Histogram histogram({0.001, 0.25, 1.0}, 1'000'000'000);
  for (const int64_t ns :
       {0L, 1'000'000L, 1'000'001L, 250'000'000L, 1'000'000'000L, 2'000'000'000L}) {
    histogram.observe(ns);
  }
  EXPECT_THAT(histogram.read().counts, ElementsAre(2, 2, 1, 1));
  EXPECT_DOUBLE_EQ(histogram.read().sum, 3.252000001);
}

TEST(Metrics, HistogramsOfAnySizeKeepTheirBucketsApart) {
  for (size_t num_bounds = 1; num_bounds < 40; ++num_bounds) {
    std::vector<double> bounds;
    for (size_t i = 0; i < num_bounds; ++i) bounds.push_back(static_cast<double>(i));
    Histogram histogram(bounds, 1);
    for (size_t i = 0; i <= num_bounds; ++i) histogram.observe(static_cast<int64_t>(i));
    EXPECT_THAT(histogram.read().counts, ::testing::Each(1));
    EXPECT_EQ(histogram.read().counts.size(), num_bounds + 1);
    EXPECT_EQ(histogram.read().sum, static_cast<double>(num_bounds * (num_bounds + 1) / 2));
  }
}

TEST(Metrics, AreWrittenAsPrometheusReadsThem) {
  Histogram histogram({0.0001, 1.0, 2560.0}, 1000);
  histogram.observe(500);
  histogram.observe(9'000'000);
  const MetricLabel common[] = {{"model_name", "a\"b\\c\nd"}};
  MetricsWriter writer(common);
  writer.family("x:requests_total", MetricType::kCounter, "How many\nrequests \\ \"all\".");
  writer.sample(int64_t{7}, {{"reason", "stop"}});
  writer.sample(int64_t{0}, {{"reason", ""}});
  writer.gauge("usage", "A share.", 0.25);
  writer.histogram("latency_seconds", "Time.", histogram.read());
  EXPECT_EQ(writer.take(), R"(# HELP x:requests_total How many\nrequests \\ "all".
# TYPE x:requests_total counter
x:requests_total{model_name="a\"b\\c\nd",reason="stop"} 7
x:requests_total{model_name="a\"b\\c\nd",reason=""} 0
# HELP usage A share.
# TYPE usage gauge
usage{model_name="a\"b\\c\nd"} 0.25
# HELP latency_seconds Time.
# TYPE latency_seconds histogram
latency_seconds_bucket{model_name="a\"b\\c\nd",le="0.0001"} 0
latency_seconds_bucket{model_name="a\"b\\c\nd",le="1.0"} 1
latency_seconds_bucket{model_name="a\"b\\c\nd",le="2560.0"} 1
latency_seconds_bucket{model_name="a\"b\\c\nd",le="+Inf"} 2
latency_seconds_sum{model_name="a\"b\\c\nd"} 9000.5
latency_seconds_count{model_name="a\"b\\c\nd"} 2
)");
}

TEST(Metrics, WithoutLabelsHaveNoBraces) {
  MetricsWriter writer;
  writer.counter("a_total", "Help.", 1);
  writer.gauge("b", "Help.", std::numeric_limits<double>::infinity());
  writer.gauge("c", "Help.", std::numeric_limits<double>::quiet_NaN());
  writer.gauge("d", "Help.", 1e300);
  const std::string text = writer.take();
  EXPECT_THAT(text, HasSubstr("\na_total 1\n"));
  EXPECT_THAT(text, HasSubstr("\nb +Inf\n"));
  EXPECT_THAT(text, HasSubstr("\nc NaN\n"));
  EXPECT_THAT(text, HasSubstr("\nd 1e+300\n"));
}

}  // namespace
}  // namespace millrace
