// Our own table for people, and CSV for programs.
#include <fmt/format.h>

#include <cmath>

#include "report/figures.h"
#include "report/report.h"
#include "report/row_group.h"
#include "results/names.h"

namespace millrace::bench {
namespace {

constexpr std::string_view kMissing = "-";

// "12.30 ±0.41": half the width of its interval, as far as there is one.
std::string with_interval(
    std::optional<double> value, const std::optional<Interval>& interval, int decimals
) {
  std::string text = fixed(value, decimals, kMissing);
  if (value && interval) {
    text += fmt::format(" ±{:.{}f}", (interval->high - interval->low) / 2.0, decimals);
  }
  return text;
}

std::string mean_cell(const PointSummary& row, Metric metric) {
  if (!row[metric]) return std::string(kMissing);
  return with_interval(row[metric]->mean, row[metric]->mean_interval, 2);
}

std::string p99_cell(const PointSummary& row, Metric metric) {
  if (!row[metric]) return std::string(kMissing);
  for (const Percentile& percentile : row[metric]->percentiles) {
    if (percentile.rank == 99.0) return with_interval(percentile.value, percentile.interval, 2);
  }
  return std::string(kMissing);
}

std::string load_cell(const PointPlan& plan) {
  if (!plan.name.empty()) return plan.name;
  const LoadPlan& load = plan.load;
  if (load.kind == LoadKind::kConcurrency) {
    return fmt::format("concurrency {}", whole(load.max_concurrency, kMissing));
  }
  if (!std::isfinite(load.request_rate)) return std::string(to_string(load.kind));
  return fmt::format("{} {} req/s", to_string(load.kind), load.request_rate);
}

// "95 of 100": completed of all that were measured.
std::string requests_cell(const PointSummary& row) {
  if (!row.num_completed) return std::string(kMissing);
  const int64_t all =
      *row.num_completed + row.num_failed.value_or(0) + row.num_unfinished.value_or(0);
  if (all == *row.num_completed) return fmt::format("{}", all);
  return fmt::format("{} of {}", *row.num_completed, all);
}

constexpr Metric kShown[] = {Metric::kTtft, Metric::kItl, Metric::kTpot, Metric::kE2e};
constexpr std::string_view kShownNames[] = {"TTFT", "ITL", "TPOT", "E2E"};

}  // namespace

std::string markdown_table(std::span<const PointSummary> rows, const ReportOptions& options) {
  std::vector<std::string> header = {"#", "Server", "Load", "Requests", "req/s", "Output tok/s"};
  for (const std::string_view name : kShownNames) {
    header.push_back(fmt::format("{} mean (ms)", name));
    header.push_back(fmt::format("{} p99 (ms)", name));
  }
  if (options.shows_verdicts) header.push_back("Verdict");
  std::string text;
  if (!options.title.empty()) text += "# " + options.title + "\n\n";
  text += table_line(header);
  text += "|--:|:--|:--";
  for (size_t i = 3; i < header.size(); ++i) text += header[i] == "Verdict" ? "|:--" : "|--:";
  text += "|\n";
  for (size_t i = 0; i < rows.size(); ++i) {
    const PointSummary& row = rows[i];
    std::string server = row.plan.framework.empty() ? row.plan.model : row.plan.framework;
    if (!row.plan.version.empty()) server += ' ' + row.plan.version;
    std::vector<std::string> cells = {
        fmt::format("{}", i + 1),
        server.empty() ? std::string(kMissing) : server,
        load_cell(row.plan),
        requests_cell(row),
        with_interval(row.request_throughput, row.request_throughput_interval, 2),
        with_interval(row.output_throughput, row.output_throughput_interval, 2)};
    for (const Metric metric : kShown) {
      cells.push_back(mean_cell(row, metric));
      cells.push_back(p99_cell(row, metric));
    }
    if (options.shows_verdicts) cells.emplace_back(to_string(row.verdict.trust()));
    text += table_line(cells);
  }
  return text + verdict_lines(row_pointers(rows), options);
}

namespace {

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string cell = "\"";
  for (const char c : text) {
    if (c == '"') cell += '"';
    cell += c;
  }
  return cell + '"';
}

// In as few digits as give the same number back; an empty cell is a figure that is not there.
std::string csv_number(std::optional<double> value) {
  if (!value || std::isnan(*value)) return "";
  return fmt::format("{}", *value);
}

using Column = std::pair<std::string, std::string>;  // its name, and its cell in one row

void add_plan_columns(std::vector<Column>& columns, const PointPlan& plan) {
  const DatasetPlan& dataset = plan.dataset;
  const LoadPlan& load = plan.load;
  columns = {
      {"name", plan.name},
      {"framework", plan.framework},
      {"version", plan.version},
      {"model", plan.model},
      {"device", plan.device},
      {"label", plan.label},
      {"dataset", dataset.name},
      {"input_len", whole(dataset.input_len, "")},
      {"hit_len", whole(dataset.hit_len, "")},
      {"output_len", whole(dataset.output_len, "")},
      {"load", std::string(to_string(load.kind))},
      {"request_rate", csv_number(load.request_rate)},
      {"burstiness", csv_number(load.burstiness)},
      {"max_concurrency", whole(load.max_concurrency, "")},
      {"num_prompts", fmt::format("{}", plan.num_prompts)},
  };
}

void add_total_columns(std::vector<Column>& columns, const PointSummary& row) {
  const auto add_interval = [&](const std::string& name, const std::optional<Interval>& interval) {
    columns.emplace_back(name + "_low", interval ? csv_number(interval->low) : "");
    columns.emplace_back(name + "_high", interval ? csv_number(interval->high) : "");
  };
  columns.emplace_back("num_completed", whole(row.num_completed, ""));
  columns.emplace_back("num_failed", whole(row.num_failed, ""));
  columns.emplace_back("num_unfinished", whole(row.num_unfinished, ""));
  columns.emplace_back("duration_s", csv_number(row.duration_s));
  columns.emplace_back("request_throughput", csv_number(row.request_throughput));
  add_interval("request_throughput", row.request_throughput_interval);
  columns.emplace_back("input_throughput", csv_number(row.input_throughput));
  columns.emplace_back("output_throughput", csv_number(row.output_throughput));
  add_interval("output_throughput", row.output_throughput_interval);
  columns.emplace_back("total_throughput", csv_number(row.total_throughput));
  columns.emplace_back("request_goodput", csv_number(row.request_goodput));
  columns.emplace_back("concurrency", csv_number(row.concurrency));
  columns.emplace_back("peak_output_throughput", csv_number(row.peak_output_throughput));
  columns.emplace_back("peak_concurrency", whole(row.peak_concurrency, ""));
  columns.emplace_back("tokens_per_chunk", csv_number(row.tokens_per_chunk));
  columns.emplace_back("prefix_hit_rate", csv_number(row.prefix_hit_rate));
  columns.emplace_back("cost_per_million_tokens", csv_number(row.cost_per_million_tokens));
}

std::vector<Column> columns_of(const PointSummary& row) {
  std::vector<Column> columns;
  add_plan_columns(columns, row.plan);
  add_total_columns(columns, row);
  for (size_t i = 0; i < kNumMetrics; ++i) {
    const Metric metric = static_cast<Metric>(i);
    const bool is_length = metric == Metric::kInputLen || metric == Metric::kOutputLen;
    const std::string unit = is_length ? "" : "_ms";
    const auto add = [&](std::string_view figure, std::optional<double> value) {
      columns.emplace_back(
          fmt::format("{}_{}{}", to_string(metric), figure, unit), csv_number(value)
      );
    };
    add("mean", mean_of(row, metric));
    add("std", std_of(row, metric));
    for (const double rank : {50.0, 90.0, 95.0, 99.0}) {
      add(fmt::format("p{}", rank_word(rank)), percentile_of(row, metric, rank));
    }
  }
  columns.emplace_back("verdict", std::string(to_string(row.verdict.trust())));
  std::vector<std::string> reasons;
  for (const Finding& finding : row.verdict.findings) reasons.push_back(finding.message);
  columns.emplace_back("reasons", joined(reasons, "; "));
  return columns;
}

}  // namespace

std::string csv(std::span<const PointSummary> rows) {
  const PointSummary empty;
  std::vector<std::string> cells;
  for (const Column& column : columns_of(empty)) cells.push_back(column.first);
  std::string text = joined(cells, ",") + "\r\n";
  for (const PointSummary& row : rows) {
    cells.clear();
    for (const Column& column : columns_of(row)) cells.push_back(csv_cell(column.second));
    text += joined(cells, ",") + "\r\n";
  }
  return text;
}

}  // namespace millrace::bench
