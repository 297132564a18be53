// The B/I/H/O grid: one table per model and device, padded columns.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "base/math.h"
#include "report/figures.h"
#include "report/report.h"
#include "report/row_group.h"

namespace millrace::bench {
namespace {

constexpr size_t kNumColumns = 8;
using Cells = std::array<std::string, kNumColumns>;

const Cells& header() {
  static const Cells kHeader = {
      "Framework", "Version", "CPU;GPU", "B/I/H/O", "Avg TTFT (s)", "Avg E2E (s)", "RPS", "TPS"};
  return kHeader;
}

// Tab stops of four: wide enough for what these columns mostly hold.
constexpr std::array<size_t, kNumColumns> kWidths = {11, 11, 11, 15, 15, 15, 7, 11};

// What is measured: concurrency, prompt, hit and output lengths.
using Biho = std::array<int64_t, 4>;

Biho biho_of(const PointSummary& row) {
  const DatasetPlan& dataset = row.plan.dataset;
  return {
      row.plan.load.max_concurrency.value_or(0),
      dataset.input_len.value_or(0),
      dataset.hit_len.value_or(0),
      dataset.output_len.value_or(0)};
}

// The published order, then all others.
size_t framework_rank(const std::string& framework) {
  constexpr std::string_view kOrder[] = {"trtllm", "sglang", "vllm", "wnr"};
  return static_cast<size_t>(std::find(std::begin(kOrder), std::end(kOrder), framework) - kOrder);
}

// `e`: it ran and nothing came of it; `m`: not run, or not said.
Cells cells_of(const PointSummary& row) {
  const std::string missing = row.num_completed == 0 ? "e" : "m";
  const Biho biho = biho_of(row);
  const bool failed = row.num_completed == 0;
  const auto figure = [&](std::optional<double> value, int decimals) {
    return failed ? missing : fixed(value, decimals, missing);
  };
  return {
      row.plan.framework,
      row.plan.version,
      row.plan.device,
      fmt::format("{}/{}/{}/{}", biho[0], biho[1], biho[2], biho[3]),
      figure(scaled(mean_of(row, Metric::kTtft), 1e-3), 3),
      figure(scaled(mean_of(row, Metric::kE2e), 1e-3), 3),
      figure(row.request_throughput, 2),
      figure(row.total_throughput, 2)};
}

std::array<size_t, kNumColumns> widths_of(std::span<const Cells> lines) {
  std::array<size_t, kNumColumns> widths = kWidths;
  for (const Cells& cells : lines) {
    for (size_t i = 0; i < kNumColumns; ++i) {
      if (cells[i].size() > widths[i]) widths[i] = round_up(cells[i].size() + 1, size_t{4}) - 1;
    }
  }
  return widths;
}

std::string padded_line(const Cells& cells, const std::array<size_t, kNumColumns>& widths) {
  std::string line = "|";
  for (size_t i = 0; i < kNumColumns; ++i) line += fmt::format("{:<{}}|", cells[i], widths[i]);
  return line + '\n';
}

// One row for each framework and B/I/H/O of the table: what was not run is a row of `m`.
std::vector<PointSummary> with_missing_rows(std::span<const PointSummary* const> rows) {
  std::vector<PointSummary> all;
  std::vector<const PointSummary*> frameworks, points;
  const auto same_framework = [](const PointSummary& a, const PointSummary& b) {
    return a.plan.framework == b.plan.framework;
  };
  for (const PointSummary* row : rows) {
    all.push_back(*row);
    if (std::none_of(frameworks.begin(), frameworks.end(), [&](const PointSummary* other) {
          return same_framework(*row, *other);
        })) {
      frameworks.push_back(row);
    }
    if (std::none_of(points.begin(), points.end(), [&](const PointSummary* other) {
          return biho_of(*row) == biho_of(*other);
        })) {
      points.push_back(row);
    }
  }
  for (const PointSummary* framework : frameworks) {
    for (const PointSummary* point : points) {
      const bool is_there = std::any_of(rows.begin(), rows.end(), [&](const PointSummary* row) {
        return same_framework(*row, *framework) && biho_of(*row) == biho_of(*point);
      });
      if (is_there) continue;
      PointSummary missing;
      missing.plan = point->plan;
      missing.plan.framework = framework->plan.framework;
      missing.plan.version = framework->plan.version;
      all.push_back(std::move(missing));
    }
  }
  return all;
}

std::string grid_table(std::span<const PointSummary* const> group, const ReportOptions& options) {
  const std::vector<PointSummary> all = with_missing_rows(group);
  std::vector<const PointSummary*> rows = row_pointers(all);
  std::stable_sort(rows.begin(), rows.end(), [](const PointSummary* a, const PointSummary* b) {
    return std::tuple(biho_of(*a), framework_rank(a->plan.framework)) <
           std::tuple(biho_of(*b), framework_rank(b->plan.framework));
  });
  std::vector<Cells> lines;
  for (const PointSummary* row : rows) {
    Cells cells = cells_of(*row);
    for (std::string& cell : cells) cell = table_cell(cell);
    lines.push_back(std::move(cells));
  }
  const std::array<size_t, kNumColumns> widths = widths_of(lines);
  Cells rule;
  rule.fill("-");
  std::string text = padded_line(header(), widths) + padded_line(rule, widths);
  for (const Cells& cells : lines) text += padded_line(cells, widths);
  return text + verdict_lines(rows, options);
}

}  // namespace

std::string grid_markdown(std::span<const PointSummary> rows, const ReportOptions& options) {
  std::string text;
  if (!options.title.empty()) text += "# " + options.title + '\n';
  const auto model_of = [](const PointSummary& row) { return row.plan.model; };
  const auto device_of = [](const PointSummary& row) { return row.plan.device; };
  for (const RowGroup& model : group_rows(row_pointers(rows), model_of)) {
    if (!text.empty()) text += "\n\n";
    if (!model.heading.empty()) text += "## " + table_cell(model.heading) + "\n\n";
    bool is_first = true;
    for (const RowGroup& device : group_rows(model.rows, device_of)) {
      if (!is_first) text += '\n';
      is_first = false;
      text += grid_table(device.rows, options);
    }
  }
  return text;
}

}  // namespace millrace::bench
