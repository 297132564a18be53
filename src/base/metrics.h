// Numbers that a program keeps about itself, and their text for Prometheus. Whoever owns a metric
// renders it: there is no registry.
//
// Updates are wait-free and may come from any thread at any time. Each metric is kept in stripes,
// one for each of the first so many processors, so that threads do not take turns on one cache
// line; a reading adds the stripes up, and is not of one instant.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {

// A cache line of numbers.
struct alignas(64) MetricLine {
  std::array<std::atomic<int64_t>, 8> values = {};
};

// Only grows.
class Counter {
 public:
  void add(int64_t n = 1);  // REQUIRES: n >= 0
  int64_t value() const;

 private:
  static constexpr size_t kNumStripes = 16;
  std::array<MetricLine, kNumStripes> stripes_;
};

// What a histogram holds: plain numbers, to be read and shown.
struct HistogramReading {
  std::span<const double> bounds;  // of the histogram, which outlives this
  std::vector<int64_t> counts;     // [bounds + 1]: each bucket alone; the last is beyond all bounds
  double sum = 0.0;

  int64_t count() const;
};

// How observed values are distributed over fixed buckets. Values are integers of a small unit, so
// that sums are exact: nanoseconds of a time that is shown in seconds.
class Histogram {
 public:
  // `bounds`: the upper ends of the buckets, which belong to them; in the unit that is shown, one
  // of which is `scale` of the observed. REQUIRES: ascending, at least one, finite; scale > 0.
  Histogram(std::vector<double> bounds, int64_t scale);

  void observe(int64_t value);
  HistogramReading read() const;

 private:
  static constexpr size_t kNumStripes = 16;

  // [0]: the sum. [1 + i]: the observations in bucket i.
  std::atomic<int64_t>& cell(size_t stripe, size_t index) {
    return lines_[stripe * num_lines_ + index / 8].values[index % 8];
  }
  int64_t read_cell(size_t stripe, size_t index) const {
    return lines_[stripe * num_lines_ + index / 8].values[index % 8].load(std::memory_order_relaxed
    );
  }

  std::vector<double> bounds_;         // as shown
  std::vector<int64_t> value_bounds_;  // as observed
  int64_t scale_;
  size_t num_lines_;               // of a stripe
  std::vector<MetricLine> lines_;  // [kNumStripes, num_lines_]
};

enum class MetricType { kCounter, kGauge, kHistogram };

struct MetricLabel {
  std::string_view name;
  std::string_view value;
};

// Writes metrics in Prometheus's text format 0.0.4, family by family.
// https://prometheus.io/docs/instrumenting/exposition_formats/
class MetricsWriter {
 public:
  static constexpr std::string_view kContentType = "text/plain; version=0.0.4; charset=utf-8";

  // `labels` stand in every sample of this writer, first.
  explicit MetricsWriter(std::span<const MetricLabel> labels = {});

  // Begins the family whose samples follow. REQUIRES: a valid name.
  void family(std::string_view name, MetricType type, std::string_view help);

  // A sample of a counter or a gauge.
  void sample(double value, std::initializer_list<MetricLabel> labels = {});
  void sample(int64_t value, std::initializer_list<MetricLabel> labels = {});

  void sample(const HistogramReading& reading, std::initializer_list<MetricLabel> labels = {});

  // A family of one sample.
  void counter(std::string_view name, std::string_view help, int64_t value);
  void gauge(std::string_view name, std::string_view help, double value);
  void histogram(std::string_view name, std::string_view help, const HistogramReading& reading);

  std::string take() { return std::move(text_); }

 private:
  void begin_sample(std::string_view suffix, std::span<const MetricLabel> labels, const double* le);

  std::string common_labels_;  // rendered
  std::string family_;
  std::string text_;
};

}  // namespace millrace
