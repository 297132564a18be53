// One row of any report: a point's figures by one tool's formulas. Made from a PointRecord, or read
// from another tool's file, which may say less: what is none was not said. Plain values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "results/point_record.h"
#include "results/verdict.h"

namespace millrace::bench {

// From `low` to `high` with `confidence`.
struct Interval {
  double low = 0.0;
  double high = 0.0;
  double confidence = 0.95;
};

struct Percentile {
  double rank = 50.0;  // 0 to 100
  // Infinite: beyond what was seen, since too many were still under way at the end.
  double value = 0.0;
  std::optional<Interval> interval;  // none: withheld, with fewer than three samples beyond it
};

// Of the samples of one metric. Where requests were still under way at the end, their times count
// as "at least this" (our own formulas): percentiles are Kaplan and Meier's, mean and std are
// restricted to what was seen, and so lower bounds. One that was read from a file may say less:
// with a count of 0 only the mean and the percentiles are known; a largest value below the mean was
// not said, nor then the smallest and the sum.
struct Distribution {
  int64_t count = 0;
  double mean = 0.0;
  double std = 0.0;  // of the population
  double min = 0.0;
  double max = 0.0;
  double sum = 0.0;
  std::optional<Interval> mean_interval;
  std::vector<Percentile> percentiles;  // ascending; 50 among them

  // none: that rank was not computed or not said.
  std::optional<double> percentile(double rank) const;
  double median() const { return percentile(50.0).value_or(0.0); }
};

enum class Metric {
  kTtft,           // from the sending
  kTtftScheduled,  // from the schedule: with what the client's own queue adds
  kTpot,
  kItl,  // between tokens
  kIcl,  // between chunks
  kE2e,
  kE2eScheduled,
  kQueueTime,  // from the schedule to the sending
  kInputLen,   // tokens
  kOutputLen,
};
inline constexpr size_t kNumMetrics = 10;
// "ttft", "ttft_scheduled", "tpot", ...: as in our JSON. Times are in milliseconds.
std::string_view to_string(Metric metric);

// Whose arithmetic: names mean different things (design notes in docs/guides/benchmarks.md).
enum class Formulas { kMillrace, kVllm, kSglang, kGuidellm, kGuidellm01, kAiperf, kGrid };

struct PointSummary {
  PointPlan plan;
  Formulas formulas = Formulas::kMillrace;
  int64_t started_unix_ns = 0;

  std::optional<double> duration_s;
  std::optional<int64_t> num_completed, num_failed, num_unfinished;
  std::optional<int64_t> num_input_tokens, num_output_tokens,
      num_cached_tokens;                     // of the completed
  std::optional<double> request_throughput;  // completed per second
  std::optional<Interval> request_throughput_interval;
  // Tokens per second: of the completed; our own count what came of unfinished ones as well.
  std::optional<double> input_throughput, output_throughput, total_throughput;
  std::optional<Interval> output_throughput_interval;
  std::optional<double> request_goodput;         // per second, with goals
  std::optional<double> concurrency;             // mean: sum of e2e by the duration
  std::optional<double> peak_output_throughput;  // the best whole second
  std::optional<int64_t> peak_concurrency;
  std::optional<double> tokens_per_chunk;
  std::optional<double> prefix_hit_rate;  // 0 to 1, of prompt tokens
  std::optional<double> cost_per_million_tokens;
  // Seconds on the record's clock: the window at full concurrency (results/timeline.h); confidence
  // unused.
  std::optional<Interval> steady;

  std::array<std::optional<Distribution>, kNumMetrics> metrics;
  std::vector<std::pair<FailureKind, int64_t>> failures;  // how many of each kind
  std::vector<std::string> error_examples;                // one of each kind, in their order
  Verdict verdict;

  const std::optional<Distribution>& operator[](Metric metric) const {
    return metrics[static_cast<size_t>(metric)];
  }
  std::optional<Distribution>& operator[](Metric metric) {
    return metrics[static_cast<size_t>(metric)];
  }
};

}  // namespace millrace::bench
