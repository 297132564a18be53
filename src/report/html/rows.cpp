#include "report/html/rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/html/text.h"

namespace millrace::bench {
namespace {

std::string framework_text(const PointPlan& plan) {
  return plan.framework.empty() ? plan.backend : plan.framework;
}

const PointRecord* find_record(
    const PointSummary& row, size_t index, std::span<const PointRecord> records
) {
  const auto is_of = [&](const PointRecord& record) {
    return record.started_unix_ns == row.started_unix_ns && record.plan == row.plan;
  };
  if (index < records.size() && is_of(records[index])) return &records[index];
  const auto found = std::find_if(records.begin(), records.end(), is_of);
  return found == records.end() ? nullptr : &*found;
}

// The names of a series, by what can differ.
struct SeriesKey {
  std::string framework, model, workload;
  friend bool operator==(const SeriesKey&, const SeriesKey&) = default;
};

std::string series_name(const SeriesKey& key, std::span<const SeriesKey> keys) {
  std::string name;
  const auto add_if_it_tells = [&](std::string SeriesKey::*part) {
    std::set<std::string> distinct;
    for (const SeriesKey& other : keys) distinct.insert(other.*part);
    if (distinct.size() < 2 || (key.*part).empty()) return;
    if (!name.empty()) name += ", ";
    name += key.*part;
  };
  add_if_it_tells(&SeriesKey::framework);
  add_if_it_tells(&SeriesKey::model);
  add_if_it_tells(&SeriesKey::workload);
  if (!name.empty()) return name;
  if (!key.framework.empty()) return key.framework;
  return key.model.empty() ? "all rows" : key.model;
}

// The place of `value` in `values`, at whose end it is put if it is new.
template <class T>
size_t place_of(std::vector<T>& values, const T& value) {
  const auto found = std::find(values.begin(), values.end(), value);
  const size_t place = static_cast<size_t>(found - values.begin());
  if (found == values.end()) values.push_back(value);
  return place;
}

}  // namespace

std::string PageRows::full_name(const PageRow& row) const {
  if (series.size() < 2) return row.name;
  return series[row.series].name + " · " + row.name;
}

PageRows arrange_rows(std::span<const PointSummary> rows, std::span<const PointRecord> records) {
  PageRows page;
  std::vector<SeriesKey> keys;
  for (size_t i = 0; i < rows.size(); ++i) {
    const PointPlan& plan = rows[i].plan;
    PageRow row;
    row.summary = &rows[i];
    row.record = find_record(rows[i], i, records);
    row.name = plan.name.empty() ? load_text(plan.load) : plan.name;
    row.series =
        place_of(keys, SeriesKey{framework_text(plan), plan.model, workload_text(plan.dataset)});
    page.rows.push_back(std::move(row));
  }
  for (const SeriesKey& key : keys) {
    page.series.push_back({series_name(key, keys), place_of(page.frameworks, key.framework)});
  }
  return page;
}

std::string load_text(const LoadPlan& load) {
  std::string text;
  const std::string rate =
      std::isfinite(load.request_rate) ? fmt::format("{:.4g}/s", load.request_rate) : "∞/s";
  switch (load.kind) {
    case LoadKind::kConcurrency:
      return fmt::format("concurrency {}", load.max_concurrency.value_or(0));
    case LoadKind::kConstant:
      text = rate + ", constant";
      break;
    case LoadKind::kGamma:
      text = load.burstiness == 1.0 ? rate + ", Poisson"
                                    : fmt::format("{}, burstiness {}", rate, load.burstiness);
      break;
    case LoadKind::kBurst:
      text = "all at once";
      break;
    case LoadKind::kTrace:
      text = "trace";
      break;
  }
  if (load.max_concurrency) text += fmt::format(", at most {}", *load.max_concurrency);
  if (!load.ramp.empty()) {
    text += fmt::format(
        ", {} ramp {} to {}/s",
        load.ramp,
        figure_text(load.ramp_start_rps),
        figure_text(load.ramp_end_rps)
    );
  }
  return text;
}

std::string workload_text(const DatasetPlan& dataset) {
  std::string text = dataset.name;
  if (dataset.input_len || dataset.output_len) {
    const auto length = [](std::optional<int64_t> tokens) {
      return tokens ? std::to_string(*tokens) : std::string("?");
    };
    if (!text.empty()) text += ' ';
    text += length(dataset.input_len) + ":" + length(dataset.output_len);
  }
  if (dataset.hit_len.value_or(0) > 0) text += fmt::format(" with {} cached", *dataset.hit_len);
  return text;
}

}  // namespace millrace::bench
