// A report like guidellm's JSON (0.7): its keys for what we know; what we do not know is null.
#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "report/figures.h"
#include "report/report.h"

namespace millrace::bench {
namespace {

double seconds(Nanos time) {
  return std::chrono::duration<double>(time).count();
}

constexpr std::pair<std::string_view, double> kPercentiles[] = {
    {"p001", 0.1},
    {"p01", 1},
    {"p05", 5},
    {"p10", 10},
    {"p25", 25},
    {"p50", 50},
    {"p75", 75},
    {"p90", 90},
    {"p95", 95},
    {"p99", 99},
    {"p999", 99.9}};

// guidellm's times are milliseconds but for the request's latency, which is seconds.
json::value distribution_json(const PointSummary& row, Metric metric, double factor) {
  if (!row[metric]) return nullptr;
  const Distribution& samples = *row[metric];
  const auto figure = [&](std::optional<double> value) {
    return number_or_null(scaled(value, factor));
  };
  const std::optional<double> deviation = scaled(std_of(row, metric), factor);
  json::object out;
  out["mean"] = figure(samples.mean);
  out["median"] = figure(samples.percentile(50.0));
  out["mode"] = nullptr;
  out["variance"] = deviation ? number_or_null(*deviation * *deviation) : json::value(nullptr);
  out["std_dev"] = number_or_null(deviation);
  out["min"] = figure(min_of(row, metric));
  out["max"] = figure(max_of(row, metric));
  out["count"] = samples.count;
  out["total_sum"] = max_of(row, metric) ? figure(samples.sum) : json::value(nullptr);
  json::object percentiles;
  for (const auto& [key, rank] : kPercentiles) percentiles[key] = figure(samples.percentile(rank));
  out["percentiles"] = std::move(percentiles);
  return out;
}

json::object by_status(json::value successful) {
  json::object out;
  out["successful"] = std::move(successful);
  out["incomplete"] = nullptr;
  out["errored"] = nullptr;
  out["total"] = nullptr;
  return out;
}

// A rate of the whole point: one number, without a distribution over time.
json::object rate_json(std::optional<double> value) {
  if (!value) return by_status(nullptr);
  json::object out;
  out["mean"] = number_or_null(value);
  return by_status(std::move(out));
}

json::object totals_json(const PointSummary& row) {
  json::object out;
  out["successful"] = count_or_null(row.num_completed);
  out["incomplete"] = count_or_null(row.num_unfinished);
  out["errored"] = count_or_null(row.num_failed);
  std::optional<int64_t> total;
  if (row.num_completed && row.num_failed && row.num_unfinished) {
    total = *row.num_completed + *row.num_failed + *row.num_unfinished;
  }
  out["total"] = count_or_null(total);
  return out;
}

json::object metrics_json(const PointSummary& row) {
  json::object out;
  out["request_totals"] = totals_json(row);
  out["requests_per_second"] = rate_json(row.request_throughput);
  out["request_concurrency"] = rate_json(row.concurrency);
  const auto add = [&](std::string_view key, Metric metric, double factor) {
    out[key] = by_status(distribution_json(row, metric, factor));
  };
  add("request_latency", Metric::kE2e, 1e-3);
  add("prompt_token_count", Metric::kInputLen, 1.0);
  add("output_token_count", Metric::kOutputLen, 1.0);
  add("time_to_first_token_ms", Metric::kTtft, 1.0);
  add("time_per_output_token_ms", Metric::kTpot, 1.0);
  add("inter_token_latency_ms", Metric::kItl, 1.0);
  out["prompt_tokens_per_second"] = rate_json(row.input_throughput);
  out["output_tokens_per_second"] = rate_json(row.output_throughput);
  out["tokens_per_second"] = rate_json(row.total_throughput);
  out["output_tokens_per_iteration"] = rate_json(row.tokens_per_chunk);
  return out;
}

json::object strategy_json(const LoadPlan& load) {
  json::object out;
  switch (load.kind) {
    case LoadKind::kConcurrency:
      out["type_"] = load.max_concurrency == 1 ? "synchronous" : "concurrent";
      out["streams"] = count_or_null(load.max_concurrency);
      break;
    case LoadKind::kConstant:
    case LoadKind::kGamma:
      out["type_"] = load.kind == LoadKind::kConstant ? "constant" : "poisson";
      out["rate"] = number_or_null(load.request_rate);
      break;
    case LoadKind::kBurst:
      out["type_"] = "throughput";
      break;
    case LoadKind::kTrace:
      out["type_"] = "replay";
      break;
  }
  out["max_concurrency"] = count_or_null(load.max_concurrency);
  return out;
}

json::object request_json(const RequestRecord& request, double started) {
  json::object out;
  out["request_id"] = fmt::format("{}", request.index);
  out["request_start_time"] = started + seconds(request.sent);
  out["request_end_time"] = started + seconds(request.ended);
  out["request_latency"] = seconds(request.ended - request.sent);
  out["prompt_tokens"] = count_or_null(request.num_prompt_tokens);
  out["output_tokens"] = request.num_output_tokens;
  std::optional<double> ttft_ms, itl_ms;
  if (request.first_token) ttft_ms = 1e3 * seconds(*request.first_token - request.sent);
  if (request.first_token && request.last_token && request.num_output_tokens > 1) {
    itl_ms = 1e3 * seconds(*request.last_token - *request.first_token) /
             static_cast<double>(request.num_output_tokens - 1);
  }
  out["time_to_first_token_ms"] = number_or_null(ttft_ms);
  out["inter_token_latency_ms"] = number_or_null(itl_ms);
  out["error"] = text_or_null(request.error);
  return out;
}

json::object requests_json(const PointRecord& record) {
  const double started = static_cast<double>(record.started_unix_ns) * 1e-9;
  json::array successful, incomplete, errored;
  for (const RequestRecord& request : record.requests) {
    if (request.phase != Phase::kMeasured) continue;
    json::array& those = request.outcome == Outcome::kCompleted ? successful
                         : request.outcome == Outcome::kFailed  ? errored
                                                                : incomplete;
    those.push_back(request_json(request, started));
  }
  json::object out;
  out["successful"] = std::move(successful);
  out["incomplete"] = std::move(incomplete);
  out["errored"] = std::move(errored);
  return out;
}

json::object benchmark_json(const PointSummary& row, const PointRecord* record) {
  json::object config;
  config["strategy"] = strategy_json(row.plan.load);
  const double started = static_cast<double>(row.started_unix_ns) * 1e-9;
  json::object scheduler;
  scheduler["start_time"] = started;
  scheduler["measure_start_time"] = started;
  json::value ended = nullptr;
  if (row.duration_s) ended = started + *row.duration_s;
  scheduler["measure_end_time"] = ended;
  scheduler["end_time"] = ended;
  scheduler["requests_made"] = totals_json(row);
  json::object out;
  out["type_"] = "generative_benchmark";
  out["config"] = std::move(config);
  out["scheduler_metrics"] = std::move(scheduler);
  out["metrics"] = metrics_json(row);
  out["requests"] = record != nullptr ? requests_json(*record) : json::object();
  out["start_time"] = started;
  out["end_time"] = ended;
  out["duration"] = number_or_null(row.duration_s);
  return out;
}

}  // namespace

std::string guidellm_json(
    std::span<const PointSummary> rows, std::span<const PointRecord> records
) {
  CHECK(records.empty() || records.size() == rows.size(), "records are of other rows");
  json::object metadata;
  metadata["generator"] = "millrace";
  json::object args;
  if (!rows.empty()) {
    const PointPlan& plan = rows.front().plan;
    args["target"] = plan.base_url;
    args["model"] = plan.model;
    json::object data;
    data["prompt_tokens"] = count_or_null(plan.dataset.input_len);
    data["output_tokens"] = count_or_null(plan.dataset.output_len);
    args["data"] = json::array{std::move(data)};
  }
  json::array benchmarks;
  for (size_t i = 0; i < rows.size(); ++i) {
    benchmarks.push_back(benchmark_json(rows[i], records.empty() ? nullptr : &records[i]));
  }
  json::object report;
  report["metadata"] = std::move(metadata);
  report["args"] = std::move(args);
  report["benchmarks"] = std::move(benchmarks);
  return to_json_text(report);
}

}  // namespace millrace::bench
