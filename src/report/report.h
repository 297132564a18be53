// Text of reports: the shapes that people know, each from rows of one format. Pure functions. Rows
// are summarized with the shape's own formulas (results/summarize.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "results/point_record.h"
#include "results/point_summary.h"

namespace millrace::bench {

struct ReportOptions {
  bool keeps_typos = false;    // of the published originals ("Reqeuest", "Lantency")
  bool shows_verdicts = true;  // a column, or lines below, where the shape has room
  // guidellm: the tables of requests, tokens and distributions before the summary.
  bool shows_all_tables = false;
  std::string title;
  int64_t now_unix_ns = 0;
};

// Which formulas the rows of a shape are summarized with.
enum class Shape { kGrid, kGuidellm, kConcurrency, kPlotly, kSglang, kMarkdown, kCsv, kHtml };
Result<Shape> parse_shape(const std::string& name);
Formulas formulas_of(Shape shape);

// The five published shapes (docs/guides/benchmarks.md).
std::string grid_markdown(std::span<const PointSummary> rows, const ReportOptions& options);
std::string guidellm_markdown(std::span<const PointSummary> rows, const ReportOptions& options);
std::string concurrency_markdown(std::span<const PointSummary> rows, const ReportOptions& options);

// One set of charts for each model. Rows of one framework at one rate are rounds, taken together by
// their mean; the percentage is of the fastest and the next, with its half-width and a mark of
// significance (results/paired_comparison.h) where both have several rounds.
std::string plotly_markdown(std::span<const PointSummary> rows, const ReportOptions& options);
std::string sglang_console(const PointSummary& row);

// One JSON object each, with the keys and the order of the tool; `details`: with per-request
// arrays.
// An infinite rate is the word "inf" in both, since JSON has no number for it.
std::string sglang_json(const PointSummary& row, const PointRecord* details);

// Whose figures are shown beside mean, median and standard deviation: vLLM's --percentile-metrics
// and --metric-percentiles. What the client's queue adds is shown where concurrency was limited.
struct VllmOptions {
  std::vector<std::string> metrics = {
      "ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"};
  std::vector<double> ranks = {99.0};
};
std::string vllm_json(
    const PointSummary& row, const PointRecord* details, const VllmOptions& options = {}
);
std::string vllm_console(const PointSummary& row, const VllmOptions& options = {});
// `records`: of the same points, or empty; then there are no requests in it.
std::string guidellm_json(std::span<const PointSummary> rows, std::span<const PointRecord> records);
std::string plotly_jsonl(std::span<const PointSummary> rows);  // published rate's keys

// Ours.
std::string markdown_table(std::span<const PointSummary> rows, const ReportOptions& options);
std::string csv(std::span<const PointSummary> rows);
std::string summary_json(const PointSummary& row);  // every figure there is, and the verdict

// One page that needs nothing else: charts, tables, verdicts, environment. `records` may be empty
// (imported rows); then there are no distributions and time lines.
std::string html_page(
    std::span<const PointSummary> rows,
    std::span<const PointRecord> records,
    const ReportOptions& options
);

}  // namespace millrace::bench
