#include "loadgen/metrics_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/metrics.h"
#include "base/rng.h"

namespace millrace::bench {
namespace {

TEST(MetricsText, ReadsNamesLabelsAndValues) {
  const MetricsText text = MetricsText::parse(
      "# HELP a Help with {braces} and \"quotes\".\n# TYPE a gauge\n"
      "a 1\n"
      "a_b:c{x=\"1\",y=\"two words\"} 2.5e+03 1700000000000\r\n"
      "  d { z = \"\" , }\t-0.25\n"
      "\n"
      "e{q=\"a\\\"b\\\\c\\nd\"} 4 # {trace=\"x\"} 1.0"
  );
  ASSERT_EQ(text.samples().size(), 4u);
  EXPECT_EQ(text.num_odd_lines(), 0u);
  EXPECT_EQ(text.samples()[0].name, "a");
  EXPECT_EQ(text.samples()[0].value, 1.0);
  EXPECT_EQ(text.samples()[1].name, "a_b:c");
  EXPECT_EQ(text.samples()[1].value, 2500.0);
  EXPECT_EQ(text.samples()[1].label("y"), "two words");
  EXPECT_FALSE(text.samples()[1].label("z").has_value());
  EXPECT_EQ(text.samples()[2].label("z"), "");
  EXPECT_EQ(text.samples()[2].value, -0.25);
  EXPECT_EQ(text.samples()[3].label("q"), "a\"b\\c\nd");
}

TEST(MetricsText, ReadsEveryKindOfNumber) {
  const MetricsText text = MetricsText::parse("a +Inf\na -Inf\na NaN\na +1e3\na 0x1\na\na 1,5\n");
  ASSERT_EQ(text.samples().size(), 4u);
  EXPECT_EQ(text.samples()[0].value, std::numeric_limits<double>::infinity());
  EXPECT_EQ(text.samples()[1].value, -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(text.samples()[2].value));
  EXPECT_EQ(text.samples()[3].value, 1000.0);
  EXPECT_EQ(text.num_odd_lines(), 3u);
}

TEST(MetricsText, LeavesOutBucketsAndPassesOverOddLines) {
  const MetricsText text = MetricsText::parse(
      "h_bucket{le=\"1\"} 5\nh_sum 3\nh_count 5\n<html>\na{b=\"c} 1\na{b} 1\na{b=c} 1\n{} 1\nok 1\n"
  );
  ASSERT_EQ(text.samples().size(), 3u);
  EXPECT_EQ(text.samples()[0].name, "h_sum");
  EXPECT_EQ(text.samples()[2].name, "ok");
  EXPECT_EQ(text.num_odd_lines(), 5u);
}

TEST(MetricsText, ReadsWhatOurOwnWriterWrites) {
  const std::array labels = {MetricLabel{"model", "a \"b\"\\\n"}};
  MetricsWriter writer(labels);
  writer.gauge("g", "Help.", 0.1);
  writer.counter("c_total", "Help.", 12345678901234);
  const MetricsText text = MetricsText::parse(writer.take());
  ASSERT_EQ(text.samples().size(), 2u);
  EXPECT_EQ(text.samples()[0].value, 0.1);
  EXPECT_EQ(text.samples()[0].label("model"), "a \"b\"\\\n");
  EXPECT_EQ(text.samples()[1].value, 12345678901234.0);
}

TEST(MetricsText, TakesAnyBytes) {
  constexpr std::string_view kPieces = "a:_{}\",=\\ \n\t#1.-+eE\x80\0";
  Rng rng(1);
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const uint64_t size = rng.below(40);
    for (uint64_t i = 0; i < size; ++i) text += kPieces[rng.below(kPieces.size())];
    const MetricsText parsed = MetricsText::parse(text);
    EXPECT_LE(parsed.samples().size(), size);
    for (const MetricSample& sample : parsed.samples()) EXPECT_FALSE(sample.name.empty());
  }
}

}  // namespace
}  // namespace millrace::bench
