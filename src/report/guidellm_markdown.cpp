// guidellm 0.1's tables: a sweep's rows by completed rate, the unit in the cell.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/figures.h"
#include "report/report.h"
#include "report/row_group.h"

namespace millrace::bench {
namespace {

constexpr std::string_view kMissing = "-";

std::string with_unit(std::optional<double> value, std::string_view unit) {
  const std::string text = fixed(value, 2, kMissing);
  return text == kMissing ? text : fmt::format("{} {}", text, unit);
}

// guidellm 0.1 knows three modes; constant and Poisson arrivals both are `asynchronous`.
std::string benchmark_name(const PointPlan& plan) {
  const LoadPlan& load = plan.load;
  if (plan.name == "synchronous" || plan.name == "throughput") return plan.name;
  switch (load.kind) {
    case LoadKind::kConstant:
    case LoadKind::kGamma:
      if (!std::isfinite(load.request_rate)) return "throughput";
      return fmt::format("asynchronous@{:.2f} req/sec", load.request_rate);
    case LoadKind::kConcurrency:
      if (load.max_concurrency == 1) return "synchronous";
      return fmt::format("concurrent@{}", whole(load.max_concurrency, kMissing));
    case LoadKind::kBurst:
      return "throughput";
    case LoadKind::kTrace:
      return "replay";
  }
  return plan.name;
}

// "- **{model}**, **{n}**张**{gpu}**, **{engine}**, prompt_tokens=512, generated_tokens=128"; what
// was not said is left out. A device that is "4 x A100" is a number of GPUs.
std::string heading_of(const PointSummary& row) {
  const PointPlan& plan = row.plan;
  std::vector<std::string> parts;
  if (!plan.model.empty()) parts.push_back(fmt::format("**{}**", plan.model));
  if (const size_t times = plan.device.find(" x "); times != std::string::npos) {
    parts.push_back(
        fmt::format("**{}**张**{}**", plan.device.substr(0, times), plan.device.substr(times + 3))
    );
  } else if (!plan.device.empty()) {
    parts.push_back(fmt::format("**{}**", plan.device));
  }
  if (!plan.framework.empty()) parts.push_back(fmt::format("**{}**", plan.framework));
  if (plan.dataset.input_len) {
    parts.push_back(fmt::format("prompt_tokens={}", *plan.dataset.input_len));
  }
  if (plan.dataset.output_len) {
    parts.push_back(fmt::format("generated_tokens={}", *plan.dataset.output_len));
  }
  return table_cell(joined(parts, ", "));
}

using Rows = std::span<const PointSummary* const>;

std::string summary_table(Rows rows) {
  std::string text = table_line(
      {"Benchmark",
       "Requests per Second",
       "Request Latency",
       "Time to First Token",
       "Inter Token Latency",
       "Output Token Throughput"}
  );
  text += table_line({":---:", ":---:", ":---:", ":---:", ":---:", ":---:"});
  for (const PointSummary* row : rows) {
    text += table_line(
        {benchmark_name(row->plan),
         with_unit(row->request_throughput, "req/sec"),
         with_unit(scaled(mean_of(*row, Metric::kE2e), 1e-3), "sec"),
         with_unit(mean_of(*row, Metric::kTtft), "ms"),
         with_unit(mean_of(*row, Metric::kItl), "ms"),
         with_unit(row->output_throughput, "tokens/sec")}
    );
  }
  return text;
}

// The first and last second of a point by the clock: N/A where it is not known.
std::string clock_time(const PointSummary& row, double after_s) {
  if (row.started_unix_ns == 0 || !std::isfinite(after_s) || std::abs(after_s) > 1e9) return "N/A";
  return time_of_day(row.started_unix_ns + static_cast<int64_t>(after_s * 1e9));
}

std::string requests_table(Rows rows) {
  std::string text = "**Requests Data by Benchmark**\n\n";
  text += table_line(
      {"Benchmark", "Requests Completed", "Request Failed", "Duration", "Start Time", "End Time"}
  );
  text += table_line({":---:", ":---:", ":---:", ":---:", ":---:", ":---:"});
  for (const PointSummary* row : rows) {
    // Like the rest of the table, of what ended: what was cut at the end is in the verdict.
    std::optional<int64_t> total;
    if (row->num_completed && row->num_failed) total = *row->num_completed + *row->num_failed;
    const std::string of = whole(total, kMissing);
    text += table_line(
        {benchmark_name(row->plan),
         fmt::format("{}/{}", whole(row->num_completed, kMissing), of),
         fmt::format("{}/{}", whole(row->num_failed, kMissing), of),
         with_unit(row->duration_s, "sec"),
         clock_time(*row, 0.0),
         row->duration_s ? clock_time(*row, *row->duration_s) : "N/A"}
    );
  }
  return text;
}

std::string ranks_cell(
    const PointSummary& row,
    Metric metric,
    std::span<const double> ranks,
    double factor,
    int decimals
) {
  std::vector<std::string> values;
  for (const double rank : ranks) {
    values.push_back(fixed(scaled(percentile_of(row, metric, rank), factor), decimals, kMissing));
  }
  return joined(values, ", ");
}

std::string tokens_table(Rows rows) {
  constexpr double kRanks[] = {1, 5, 50, 95, 99};
  std::string text = "**Tokens Data by Benchmark**\n\n";
  text += table_line(
      {"Benchmark",
       "Prompt",
       "Prompt (1%, 5%, 50%, 95%, 99%)",
       "Output",
       "Output (1%, 5%, 50%, 95%, 99%)"}
  );
  text += table_line({":---:", ":---:", ":---:", ":---:", ":---:"});
  for (const PointSummary* row : rows) {
    text += table_line(
        {benchmark_name(row->plan),
         fixed(mean_of(*row, Metric::kInputLen), 2, kMissing),
         ranks_cell(*row, Metric::kInputLen, kRanks, 1.0, 1),
         fixed(mean_of(*row, Metric::kOutputLen), 2, kMissing),
         ranks_cell(*row, Metric::kOutputLen, kRanks, 1.0, 1)}
    );
  }
  return text;
}

std::string distributions_table(Rows rows) {
  constexpr double kRanks[] = {1, 5, 10, 50, 90, 95, 99};
  std::string text = "**Performance Stats by Benchmark**\n\n";
  text += table_line(
      {"Benchmark",
       "Request Latency [1%, 5%, 10%, 50%, 90%, 95%, 99%] (sec)",
       "Time to First Token [1%, 5%, 10%, 50%, 90%, 95%, 99%] (ms)",
       "Inter Token Latency [1%, 5%, 10%, 50%, 90%, 95%, 99%] (ms)"}
  );
  text += table_line({":---:", ":---:", ":---:", ":---:"});
  for (const PointSummary* row : rows) {
    text += table_line(
        {benchmark_name(row->plan),
         ranks_cell(*row, Metric::kE2e, kRanks, 1e-3, 2),
         ranks_cell(*row, Metric::kTtft, kRanks, 1.0, 1),
         ranks_cell(*row, Metric::kItl, kRanks, 1.0, 1)}
    );
  }
  return text;
}

std::string all_tables(Rows rows) {
  return requests_table(rows) + '\n' + tokens_table(rows) + '\n' + distributions_table(rows) +
         "\n**Performance Summary by Benchmark**\n\n";
}

}  // namespace

std::string guidellm_markdown(std::span<const PointSummary> rows, const ReportOptions& options) {
  std::string text;
  if (!options.title.empty()) text += "# " + options.title + '\n';
  for (RowGroup& group : group_rows(row_pointers(rows), heading_of)) {
    // Rows without a figure come first, as rows that completed nothing do.
    std::stable_sort(
        group.rows.begin(),
        group.rows.end(),
        [](const PointSummary* a, const PointSummary* b) {
          return a->request_throughput.value_or(0.0) < b->request_throughput.value_or(0.0);
        }
    );
    if (!text.empty()) text += '\n';
    if (!group.heading.empty()) text += "- " + group.heading + "\n\n";
    if (options.shows_all_tables) text += all_tables(group.rows);
    text += summary_table(group.rows) + verdict_lines(group.rows, options);
  }
  return text;
}

}  // namespace millrace::bench
