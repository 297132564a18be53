#include "report/html/data.h"

#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "report/html/curves.h"

namespace millrace::bench {
namespace {

// Metrics that charts show.
constexpr Metric kDrawnMetrics[] = {
    Metric::kTtft,
    Metric::kTtftScheduled,
    Metric::kTpot,
    Metric::kItl,
    Metric::kE2e,
    Metric::kE2eScheduled};
constexpr std::pair<double, std::string_view> kDrawnRanks[] = {
    {50.0, "p50"}, {90.0, "p90"}, {99.0, "p99"}};

// Six digits: a page needs no more, and is a third as long.
json::value number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (value == 0.0) return 0;
  const double digits = 5.0 - std::floor(std::log10(std::abs(value)));
  if (digits > 300.0) return 0;
  const double scale = std::pow(10.0, digits);
  return digits >= 0.0 ? std::round(value * scale) / scale
                       : std::round(value / std::pow(10.0, -digits)) * std::pow(10.0, -digits);
}

json::value number(std::optional<double> value) {
  return value ? number(*value) : nullptr;
}

// [value, low, high], the last two where there is an interval.
json::value figure(double value, const std::optional<Interval>& interval) {
  json::array out = {number(value)};
  if (interval) {
    out.push_back(number(interval->low));
    out.push_back(number(interval->high));
  }
  return out;
}

json::value figure(std::optional<double> value, const std::optional<Interval>& interval) {
  return value ? figure(*value, interval) : nullptr;
}

json::object distribution(const Distribution& metric) {
  json::object out;
  out["mean"] = figure(metric.mean, metric.mean_interval);
  for (const auto& [rank, name] : kDrawnRanks) {
    for (const Percentile& percentile : metric.percentiles) {
      if (percentile.rank == rank) out[name] = figure(percentile.value, percentile.interval);
    }
  }
  return out;
}

json::object load(const LoadPlan& plan) {
  json::object out;
  const bool is_open = plan.kind != LoadKind::kConcurrency && plan.kind != LoadKind::kTrace;
  out["is_open"] = is_open;
  // null: infinite
  out["request_rate"] =
      is_open && plan.kind != LoadKind::kBurst ? number(plan.request_rate) : json::value(nullptr);
  out["concurrency"] =
      plan.max_concurrency ? json::value(*plan.max_concurrency) : json::value(nullptr);
  return out;
}

json::array numbers(const std::vector<double>& values) {
  json::array out;
  out.reserve(values.size());
  for (const double value : values) out.push_back(number(value));
  return out;
}

json::object curve(const Curve& curve) {
  json::object out;
  out["num_samples"] = curve.num_samples;
  out["num_censored"] = curve.num_censored;
  out["x"] = numbers(curve.x);
  out["y"] = numbers(curve.y);
  return out;
}

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCompleted:
      return "completed";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kUnfinished:
      return "unfinished";
  }
  return "";
}

// By column, which is shorter than by request.
json::object requests(const Timeline& timeline) {
  json::array index, scheduled, sent, first_token, ended, outcome;
  for (const TimelineRequest& request : timeline.requests) {
    index.push_back(request.index);
    scheduled.push_back(number(request.scheduled));
    sent.push_back(number(request.sent));
    first_token.push_back(number(request.first_token));
    ended.push_back(number(request.ended));
    outcome.push_back(json::string(to_string(request.outcome)));
  }
  return {
      {"index", index},
      {"scheduled", scheduled},
      {"sent", sent},
      {"ended", ended},
      {"first_token", first_token},
      {"outcome", outcome}};
}

json::object server_samples(const Timeline& timeline, Nanos origin) {
  json::array at, num_running, num_waiting, kv_usage;
  for (const ServerSample& sample : timeline.server) {
    at.push_back(number(std::chrono::duration<double>(sample.at - origin).count()));
    num_running.push_back(number(sample.num_running));
    num_waiting.push_back(number(sample.num_waiting));
    kv_usage.push_back(number(sample.kv_usage));
  }
  return {
      {"at", at},
      {"num_running", num_running},
      {"num_waiting", num_waiting},
      {"kv_usage", kv_usage}};
}

json::object timeline(const PointRecord& record) {
  const Timeline timeline = make_timeline(record);
  json::object out;
  out["num_requests"] = timeline.num_requests;
  out["requests"] = requests(timeline);
  out["bucket_s"] = timeline.bucket_s;
  out["output_throughput"] = numbers(timeline.output_throughput);
  out["num_in_flight"] = json::value_from(timeline.num_in_flight);
  out["server"] = server_samples(timeline, record.first_dispatch);
  return out;
}

json::object row_data(const PageRows& page, const PageRow& row) {
  const PointSummary& summary = *row.summary;
  json::object out;
  out["name"] = row.name;
  out["full_name"] = page.full_name(row);
  out["series"] = row.series;
  out["trust"] = json::string(to_string(summary.verdict.trust()));
  out["load"] = load(summary.plan.load);
  out["request_throughput"] =
      figure(summary.request_throughput, summary.request_throughput_interval);
  out["output_throughput"] = figure(summary.output_throughput, summary.output_throughput_interval);
  json::object metrics;
  for (const Metric metric : kDrawnMetrics) {
    if (summary[metric]) metrics[to_string(metric)] = distribution(*summary[metric]);
  }
  out["metrics"] = std::move(metrics);
  if (row.record != nullptr) {
    const Curves curves = make_curves(*row.record, summary.formulas);
    out["curves"] = {
        {"ttft", curve(curves.ttft)}, {"itl", curve(curves.itl)}, {"e2e", curve(curves.e2e)}};
    out["timeline"] = timeline(*row.record);
  }
  return out;
}

}  // namespace

json::object page_data(const PageRows& page) {
  json::array frameworks, series, rows;
  for (const std::string& name : page.frameworks) frameworks.push_back(json::string(name));
  for (const PageSeries& one : page.series) {
    series.push_back({{"name", one.name}, {"framework", one.framework}});
  }
  for (const PageRow& row : page.rows) rows.push_back(row_data(page, row));
  return {
      {"frameworks", std::move(frameworks)},
      {"series", std::move(series)},
      {"rows", std::move(rows)}};
}

}  // namespace millrace::bench
