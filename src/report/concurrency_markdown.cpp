// Tables by concurrency: one for each deployment and pair of lengths, numbers as jq rounds them.
#include <fmt/format.h>

#include <algorithm>

#include "report/figures.h"
#include "report/report.h"
#include "report/row_group.h"

namespace millrace::bench {
namespace {

constexpr std::string_view kMissing = "-";

std::string deployment_of(const PointSummary& row) {
  std::string name = row.plan.framework;
  if (!row.plan.version.empty()) name += (name.empty() ? "" : " ") + row.plan.version;
  return table_cell(name);
}

std::string lengths_of(const PointSummary& row) {
  const DatasetPlan& dataset = row.plan.dataset;
  if (!dataset.input_len || !dataset.output_len) return "Benchmark Result";
  return fmt::format("Benchmark Result (ISL:OSL={}:{})", *dataset.input_len, *dataset.output_len);
}

std::string header(bool keeps_typos) {
  const std::string_view request = keeps_typos ? "Reqeuest" : "Request";
  const std::string_view latency = keeps_typos ? "Lantency" : "Latency";
  return fmt::format(
      "| Concurrency | {} Throughput (req/s) | Output Token Throughput (tok/s) |"
      " Mean E2E {} (ms)  | P99 E2E {} (ms) | Mean TTFT (ms) | P99 TTFT (ms) |"
      " Mean TPOT (ms) | P99 TPOT (ms) |\n"
      "|:-----------:|:--------------------------:|:-------------------------------:|"
      ":-----------------------:|:---------------------:|:--------------:|:-------------:|"
      ":-------------:|:------------:|\n",
      request,
      latency,
      latency
  );
}

std::string line_of(const PointSummary& row) {
  std::vector<std::string> cells = {
      whole(row.plan.load.max_concurrency, kMissing),
      rounded_2(row.request_throughput, kMissing),
      rounded_2(row.output_throughput, kMissing)};
  for (const Metric metric : {Metric::kE2e, Metric::kTtft, Metric::kTpot}) {
    cells.push_back(rounded_2(mean_of(row, metric), kMissing));
    cells.push_back(rounded_2(percentile_of(row, metric, 99.0), kMissing));
  }
  return table_line(cells);
}

std::string table_of(RowGroup& group, const ReportOptions& options) {
  std::stable_sort(
      group.rows.begin(),
      group.rows.end(),
      [](const PointSummary* a, const PointSummary* b) {
        return a->plan.load.max_concurrency < b->plan.load.max_concurrency;
      }
  );
  std::string text = "## " + group.heading + "\n\n" + header(options.keeps_typos);
  for (const PointSummary* row : group.rows) text += line_of(*row);
  return text + verdict_lines(group.rows, options);
}

}  // namespace

std::string concurrency_markdown(std::span<const PointSummary> rows, const ReportOptions& options) {
  std::string text;
  if (!options.title.empty()) text += "# " + options.title + '\n';
  for (const RowGroup& deployment : group_rows(row_pointers(rows), deployment_of)) {
    if (!text.empty()) text += '\n';
    if (!deployment.heading.empty()) text += "# " + deployment.heading + "\n\n";
    bool is_first = true;
    for (RowGroup& lengths : group_rows(deployment.rows, lengths_of)) {
      if (!is_first) text += '\n';
      is_first = false;
      text += table_of(lengths, options);
    }
  }
  return text;
}

}  // namespace millrace::bench
