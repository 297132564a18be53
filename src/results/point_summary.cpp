#include "results/point_summary.h"

#include <cmath>

#include "base/check.h"

namespace millrace::bench {

std::optional<double> Distribution::percentile(double rank) const {
  for (const Percentile& percentile : percentiles) {
    if (std::abs(percentile.rank - rank) < 1e-9) return percentile.value;
  }
  return std::nullopt;
}

std::string_view to_string(Metric metric) {
  static constexpr std::array<std::string_view, kNumMetrics> kNames = {
      "ttft",
      "ttft_scheduled",
      "tpot",
      "itl",
      "icl",
      "e2e",
      "e2e_scheduled",
      "queue_time",
      "input_len",
      "output_len"};
  CHECK(static_cast<size_t>(metric) < kNumMetrics, "a metric without a name");
  return kNames[static_cast<size_t>(metric)];
}

}  // namespace millrace::bench
