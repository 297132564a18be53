// guidellm's rates, as its published sweep has them.
#include "bench/sweep_rates.h"

#include <gtest/gtest.h>

namespace millrace::bench {
namespace {

// Eleven rows: synchronous 0.60 and throughput 6.61 requests per second were measured, and these
// nine follow.
TEST(SweepRates, AreThoseOfThePublishedSweep) {
  const std::vector<double> published = {1.27, 1.94, 2.60, 3.27, 3.94, 4.61, 5.27, 5.94, 6.61};
  const std::vector<double> rates = sweep_rates(0.60, 6.61, 11);
  ASSERT_EQ(rates.size(), published.size());
  for (size_t i = 0; i < rates.size(); ++i) {
    // Both ends were printed rounded to 0.005.
    EXPECT_NEAR(rates[i], published[i], 0.011) << i;
  }
}

TEST(SweepRates, EndExactlyAtTheThroughput) {
  EXPECT_EQ(sweep_rates(0.1, 0.3, 5).back(), 0.3);
  EXPECT_EQ(sweep_rates(1.0, 5.0, 6), (std::vector<double>{2, 3, 4, 5}));
  EXPECT_EQ(sweep_rates(1.0, 5.0, 3), (std::vector<double>{5}));
  EXPECT_TRUE(sweep_rates(1.0, 5.0, 2).empty());
}

TEST(SweepRatesDeathTest, NeedTwoPoints) {
  EXPECT_DEATH(sweep_rates(1.0, 2.0, 1), "two points");
}

}  // namespace
}  // namespace millrace::bench
