// What figures say, as ranges.
#include <algorithm>

#include "base/check.h"
#include "report/audit_rules.h"
#include "report/figures.h"

namespace millrace::bench {

Precision precision_of(ResultFormat format) {
  switch (format) {
    case ResultFormat::kGridMarkdown:
      return {.rate = 0.005, .ttft_ms = 0.5, .itl_ms = 0.0, .e2e_ms = 0.5};
    case ResultFormat::kGuidellmMarkdown:
      return {.rate = 0.005, .ttft_ms = 0.005, .itl_ms = 0.005, .e2e_ms = 5.0};
    case ResultFormat::kConcurrencyMarkdown:
      return {.rate = 0.005, .ttft_ms = 0.005, .itl_ms = 0.005, .e2e_ms = 0.005};
    case ResultFormat::kMillrace:
    case ResultFormat::kVllmJson:
    case ResultFormat::kSglangJsonl:
    case ResultFormat::kGuidellmJson:
      return {};
  }
  CHECK(false, "a format without a precision");
}

Range around(double value, double half_width) {
  return {std::max(value - half_width, 0.0), value + half_width};
}

Range ratio(Range a, Range b) {
  constexpr double kHuge = 1e300;
  return {b.high > 0.0 ? a.low / b.high : 0.0, b.low > 0.0 ? a.high / b.low : kHuge};
}

void add_finding(PointSummary& row, Trust trust, std::string_view code, std::string message) {
  row.verdict.findings.push_back({.trust = trust, .code = code, .message = std::move(message)});
}

std::optional<Range> request_rate_range(const PointSummary& row, const Precision& precision) {
  if (!row.request_throughput || *row.request_throughput <= 0.0) return std::nullopt;
  const DatasetPlan& dataset = row.plan.dataset;
  if (row.formulas == Formulas::kGrid && row.total_throughput && dataset.input_len &&
      dataset.output_len && (*dataset.input_len > 0 || *dataset.output_len > 0)) {
    // Prompt and output are of exact lengths, so that tokens per second have the more digits.
    const double tokens =
        static_cast<double>(*dataset.input_len) + static_cast<double>(*dataset.output_len);
    return around(*row.total_throughput / tokens, precision.rate / tokens);
  }
  return around(*row.request_throughput, precision.rate);
}

std::optional<Range> implied_output_len(const PointSummary& row, const Precision& precision) {
  if (row.num_output_tokens && row.num_completed && *row.num_completed > 0) {
    const double length =
        static_cast<double>(*row.num_output_tokens) / static_cast<double>(*row.num_completed);
    return Range{length, length};
  }
  if (const std::optional<double> length = mean_of(row, Metric::kOutputLen)) {
    return Range{*length, *length};
  }
  std::optional<Range> best;
  const std::optional<Range> rate = request_rate_range(row, precision);
  if (rate && row.output_throughput) {
    best = ratio(around(*row.output_throughput, precision.rate), *rate);
  }
  const std::optional<double> ttft = mean_of(row, Metric::kTtft);
  const std::optional<double> e2e = mean_of(row, Metric::kE2e);
  const std::optional<double> tpot = mean_of(row, Metric::kTpot);
  const bool has_tpot = row.formulas == Formulas::kVllm || row.formulas == Formulas::kSglang;
  if (has_tpot && ttft && e2e && tpot && *tpot > 0.0 && *e2e > *ttft) {
    const Range gaps = ratio(
        around(*e2e - *ttft, precision.e2e_ms + precision.ttft_ms), around(*tpot, precision.itl_ms)
    );
    const Range length = {gaps.low + 1.0, gaps.high + 1.0};
    if (!best || length.relative_width() < best->relative_width()) best = length;
  }
  return best;
}

}  // namespace millrace::bench
