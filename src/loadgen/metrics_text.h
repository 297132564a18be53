// Reads what servers say of themselves at /metrics: Prometheus's text format 0.0.4, and OpenMetrics
// as far as it is the same. Lines that are no sample are passed over: the text is another
// program's, and one odd line must not hide the rest.
// https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::bench {

struct MetricSample {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;  // values without their escapes
  double value = 0.0;                                       // may be infinite or NaN

  // none: no such label.
  std::optional<std::string_view> label(std::string_view label_name) const;
};

class MetricsText {
 public:
  // Buckets of histograms (`_bucket`) are left out: most of the text, and of no use here.
  static MetricsText parse(std::string_view text);

  const std::vector<MetricSample>& samples() const { return samples_; }
  // Lines that are neither samples nor comments.
  size_t num_odd_lines() const { return num_odd_lines_; }

 private:
  std::vector<MetricSample> samples_;
  size_t num_odd_lines_ = 0;
};

}  // namespace millrace::bench
