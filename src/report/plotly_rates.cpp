#include "report/plotly_rates.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "report/figures.h"

namespace millrace::bench {
namespace {

// What the row's server is called.
const std::string& framework_of(const PointSummary& row) {
  return row.plan.framework.empty() ? row.plan.backend : row.plan.framework;
}

RateComparison& comparison_of(std::vector<RateComparison>& all, const std::string& model) {
  for (RateComparison& one : all) {
    if (one.model == model) return one;
  }
  return all.emplace_back(RateComparison{.model = model});
}

void add_row(RateComparison& comparison, const PointSummary& row) {
  const std::string& name = framework_of(row);
  auto& frameworks = comparison.frameworks;
  const auto found = std::find(frameworks.begin(), frameworks.end(), name);
  const size_t framework = static_cast<size_t>(found - frameworks.begin());
  if (found == frameworks.end()) frameworks.push_back(name);
  const RateLoad load = {row.plan.load.request_rate, row.plan.load.max_concurrency};
  comparison.loads.try_emplace(load, row.plan.num_prompts);
  if (row.verdict.trust() == Trust::kInvalid) comparison.invalid[load].insert(framework);
  for (const Metric metric : kRateMetrics) {
    const auto mean = mean_of(row, metric);
    if (!mean || !std::isfinite(*mean)) continue;
    comparison.rounds[{metric, load, framework}].push_back(*mean);
  }
}

// REQUIRES: values are finite where they are there.
Fastest find_fastest(const std::vector<std::optional<double>>& values) {
  std::vector<std::pair<double, size_t>> order;
  for (size_t place = 0; place < values.size(); ++place) {
    if (values[place]) order.emplace_back(*values[place], place);
  }
  std::sort(order.begin(), order.end());
  if (order.size() < 2) return {};
  const double faster = order[0].first;
  const double slower = order[1].first;
  if (faster == slower) return {.is_tie = true};
  Fastest fastest = {.place = order[0].second, .next = order[1].second};
  if (slower > 0.0) fastest.percent = 100.0 * (slower - faster) / slower;
  return fastest;
}

}  // namespace

std::string to_string(const RateLoad& load) {
  std::string text =
      std::isfinite(load.request_rate) ? python_float(load.request_rate) : "infinite";
  if (load.max_concurrency) text += fmt::format(", {} at once", *load.max_concurrency);
  return text;
}

std::optional<double> RateComparison::mean(Metric metric, const RateLoad& load, size_t framework)
    const {
  const auto found = rounds.find({metric, load, framework});
  if (found == rounds.end()) return std::nullopt;
  const std::vector<double>& values = found->second;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::optional<PairedComparison> RateComparison::compare(
    Metric metric, const RateLoad& load, size_t framework, size_t other
) const {
  const auto first = rounds.find({metric, load, framework});
  const auto second = rounds.find({metric, load, other});
  if (first == rounds.end() || second == rounds.end()) return std::nullopt;
  if (first->second.size() != second->second.size()) return std::nullopt;
  std::vector<PairedBlock> blocks;
  for (size_t i = 0; i < first->second.size(); ++i) {
    blocks.push_back({.first = first->second[i], .second = second->second[i]});
  }
  return compare_paired(blocks);
}

Fastest RateComparison::fastest(Metric metric, const RateLoad& load) const {
  const auto found = invalid.find(load);
  std::vector<std::optional<double>> values;
  for (size_t framework = 0; framework < frameworks.size(); ++framework) {
    const bool is_invalid = found != invalid.end() && found->second.contains(framework);
    values.push_back(is_invalid ? std::nullopt : mean(metric, load, framework));
  }
  return find_fastest(values);
}

std::vector<RateComparison> compare_rates(std::span<const PointSummary> rows) {
  std::vector<RateComparison> all;
  for (const PointSummary& row : rows) {
    if (std::isnan(row.plan.load.request_rate)) continue;  // it has no place among the others
    add_row(comparison_of(all, row.plan.model), row);
  }
  return all;
}

}  // namespace millrace::bench
