// guidellm's JSON: of 0.1 (a report of reports, figures per benchmark) and of 0.7 (distributions by
// status). Keys that a version does not have are figures that were not said.
#include <fmt/format.h>

#include <array>
#include <span>

#include "report/import_parts.h"

namespace millrace::bench {
namespace {

// Follows keys into objects, and "0" into an array's first element; none: not there.
const json::value* at_path(const json::value& from, std::span<const std::string_view> path) {
  const json::value* at = &from;
  for (const std::string_view key : path) {
    if (const json::object* object = at->if_object()) {
      at = object->if_contains(key);
    } else if (const json::array* array = at->if_array(); array != nullptr && key == "0") {
      at = array->if_contains(0);
    } else {
      return nullptr;
    }
    if (at == nullptr) return nullptr;
  }
  return at;
}

template <class... Keys>
const json::value* dig(const json::value& from, Keys... keys) {
  const std::array<std::string_view, sizeof...(keys)> path = {keys...};
  return at_path(from, path);
}

std::optional<double> number_of(const json::value* value) {
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->to_number<double>();
}

std::optional<int64_t> count_of(const json::value* value) {
  const std::optional<double> number = number_of(value);
  if (!number || !(*number >= 0.0 && *number < 9e15)) return std::nullopt;
  return static_cast<int64_t>(*number);
}

std::string text_of(const json::value* value) {
  if (value == nullptr || !value->is_string()) return "";
  return std::string(value->get_string());
}

// The first that is there.
const json::value* either(const json::value* a, const json::value* b) {
  return a != nullptr && !a->is_null() ? a : b;
}

std::optional<Distribution> read_distribution(
    const json::value& benchmark, std::string_view metric, double factor
) {
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
  const json::value* from = dig(benchmark, "metrics", metric, "successful");
  if (from == nullptr) return std::nullopt;
  const std::optional<double> mean = number_of(dig(*from, "mean"));
  const std::optional<int64_t> count = count_of(dig(*from, "count"));
  if (!mean || count == 0) return std::nullopt;
  Distribution samples;
  samples.mean = *mean * factor;
  if (const std::optional<double> deviation = number_of(dig(*from, "std_dev"))) {
    samples.count = count.value_or(0);
    samples.std = *deviation * factor;
  }
  samples.min = number_of(dig(*from, "min")).value_or(0.0) * factor;
  samples.max = number_of(dig(*from, "max")).value_or(0.0) * factor;
  samples.sum = number_of(dig(*from, "total_sum")).value_or(0.0) * factor;
  for (const auto& [key, rank] : kPercentiles) {
    if (const std::optional<double> value = number_of(dig(*from, "percentiles", key))) {
      samples.percentiles.push_back({.rank = rank, .value = *value * factor});
    }
  }
  return samples;
}

// synchronous, throughput, concurrent, constant, poisson (0.1: asynchronous).
void read_strategy(std::string_view type, std::optional<double> rate, PointPlan& plan) {
  LoadPlan& load = plan.load;
  plan.name = std::string(type);
  if (type == "synchronous") {
    load.kind = LoadKind::kConcurrency;
    load.max_concurrency = 1;
  } else if (type == "concurrent") {
    load.kind = LoadKind::kConcurrency;
  } else if (rate && *rate > 0.0) {
    load.kind = type == "poisson" ? LoadKind::kGamma : LoadKind::kConstant;
    load.request_rate = *rate;
    plan.name = fmt::format("{}@{:.2f}", type, *rate);
  } else {
    load.kind = LoadKind::kBurst;
  }
}

// What the report as a whole says of its data and its model.
void read_report_plan(const json::value& report, PointPlan& plan) {
  const json::value* data =
      either(dig(report, "config", "spec", "data", "0"), dig(report, "args", "data", "0"));
  if (data != nullptr) {
    plan.dataset.input_len = count_of(dig(*data, "prompt_tokens"));
    plan.dataset.output_len = count_of(dig(*data, "output_tokens"));
  }
  const json::value* model = either(
      dig(report, "config", "spec", "backend", "model"),
      either(dig(report, "args", "model"), dig(report, "args", "backend", "model"))
  );
  plan.model = text_of(model);
  plan.backend = "guidellm";
}

ImportedRow import_benchmark(const json::value& report, const json::value& benchmark) {
  ImportedRow imported;
  PointSummary& row = imported.summary;
  row.formulas = Formulas::kGuidellm;
  read_report_plan(report, row.plan);
  const json::value* strategy =
      either(dig(benchmark, "config", "strategy"), dig(benchmark, "args", "strategy"));
  if (strategy != nullptr) {
    read_strategy(text_of(dig(*strategy, "type_")), number_of(dig(*strategy, "rate")), row.plan);
    const json::value* limit = either(dig(*strategy, "streams"), dig(*strategy, "max_concurrency"));
    if (!row.plan.load.max_concurrency) row.plan.load.max_concurrency = count_of(limit);
    // Not of the load's shape: workers' default.
    if (row.plan.load.kind == LoadKind::kConstant) row.plan.load.max_concurrency.reset();
  }
  row.duration_s = number_of(dig(benchmark, "duration"));
  if (const std::optional<double> started = number_of(dig(benchmark, "start_time"))) {
    if (*started > 0.0 && *started < 7e9) {
      row.started_unix_ns = static_cast<int64_t>(*started * 1e9);
    }
  }
  row.num_completed = count_of(dig(benchmark, "metrics", "request_totals", "successful"));
  row.num_failed = count_of(dig(benchmark, "metrics", "request_totals", "errored"));
  row.num_unfinished = count_of(dig(benchmark, "metrics", "request_totals", "incomplete"));
  const auto rate = [&](std::string_view key) {
    return number_of(dig(benchmark, "metrics", key, "successful", "mean"));
  };
  row.request_throughput = rate("requests_per_second");
  row.concurrency = rate("request_concurrency");
  row.input_throughput = rate("prompt_tokens_per_second");
  row.output_throughput = rate("output_tokens_per_second");
  row.total_throughput = rate("tokens_per_second");
  row[Metric::kE2e] = read_distribution(benchmark, "request_latency", 1e3);
  row[Metric::kTtft] = read_distribution(benchmark, "time_to_first_token_ms", 1.0);
  row[Metric::kTpot] = read_distribution(benchmark, "time_per_output_token_ms", 1.0);
  row[Metric::kItl] = read_distribution(benchmark, "inter_token_latency_ms", 1.0);
  row[Metric::kInputLen] = read_distribution(benchmark, "prompt_token_count", 1.0);
  row[Metric::kOutputLen] = read_distribution(benchmark, "output_token_count", 1.0);
  imported.section = row.plan.model.empty() ? "guidellm" : row.plan.model;
  return imported;
}

// 0.1: a mean, and values at fixed ranks.
std::optional<Distribution> read_ranks(
    const json::value& benchmark, const std::string& metric, double mean_factor, double ranks_factor
) {
  const std::optional<double> mean = number_of(dig(benchmark, metric));
  if (!mean) return std::nullopt;
  Distribution samples;
  samples.mean = *mean * mean_factor;
  const bool is_length = metric == "prompt_token" || metric == "output_token";
  constexpr double kLengthRanks[] = {1, 5, 50, 95, 99};
  constexpr double kTimeRanks[] = {1, 5, 10, 50, 90, 95, 99};
  const std::span<const double> ranks =
      is_length ? std::span<const double>(kLengthRanks) : std::span<const double>(kTimeRanks);
  const json::value* values = dig(benchmark, metric + "_percentiles");
  if (values == nullptr || !values->is_array()) return samples;
  const json::array& array = values->get_array();
  for (size_t i = 0; i < ranks.size() && i < array.size(); ++i) {
    if (const std::optional<double> value = number_of(&array[i])) {
      samples.percentiles.push_back({.rank = ranks[i], .value = *value * ranks_factor});
    }
  }
  return samples;
}

ImportedRow import_benchmark_01(const json::value& report, const json::value& benchmark) {
  ImportedRow imported;
  PointSummary& row = imported.summary;
  row.formulas = Formulas::kGuidellm01;
  row.plan.model = text_of(dig(report, "args", "model"));
  row.plan.backend = "guidellm";
  read_strategy(text_of(dig(benchmark, "mode")), number_of(dig(benchmark, "rate")), row.plan);
  row.num_completed = count_of(dig(benchmark, "request_count"));
  row.num_failed = count_of(dig(benchmark, "error_count"));
  row.duration_s = number_of(dig(benchmark, "duration"));
  row.request_throughput = number_of(dig(benchmark, "completed_request_rate"));
  row.output_throughput = number_of(dig(benchmark, "output_token_throughput"));
  // Percentiles of times are seconds; so is the mean latency, but not the other means.
  row[Metric::kE2e] = read_ranks(benchmark, "request_latency", 1e3, 1e3);
  row[Metric::kTtft] = read_ranks(benchmark, "time_to_first_token", 1.0, 1e3);
  row[Metric::kItl] = read_ranks(benchmark, "inter_token_latency", 1.0, 1e3);
  row[Metric::kInputLen] = read_ranks(benchmark, "prompt_token", 1.0, 1.0);
  row[Metric::kOutputLen] = read_ranks(benchmark, "output_token", 1.0, 1.0);
  imported.section = row.plan.model.empty() ? "guidellm" : row.plan.model;
  return imported;
}

Error not_a_benchmark(size_t index) {
  return invalid_argument(fmt::format(
      "benchmarks[{}] is no benchmark of guidellm: expected 'metrics' (0.7) or 'mode' (0.1)", index
  ));
}

// Adds the rows of one report, which may hold reports (0.1).
Result<void> add_report(
    const json::value& report, bool is_outermost, std::vector<ImportedRow>& rows
) {
  const json::value* benchmarks = dig(report, "benchmarks");
  if (benchmarks == nullptr || !benchmarks->is_array()) {
    return invalid_argument("'benchmarks' must be an array");
  }
  size_t index = 0;
  for (const json::value& benchmark : benchmarks->get_array()) {
    if (rows.size() >= kImportedRowsMax) {
      return invalid_argument(fmt::format("more than {} benchmarks", kImportedRowsMax));
    }
    if (is_outermost && dig(benchmark, "benchmarks") != nullptr) {
      if (Result<void> added = add_report(benchmark, false, rows); !added) return added.error();
    } else if (dig(benchmark, "metrics") != nullptr) {
      rows.push_back(import_benchmark(report, benchmark));
    } else if (dig(benchmark, "mode") != nullptr) {
      rows.push_back(import_benchmark_01(report, benchmark));
    } else {
      return not_a_benchmark(index);
    }
    ++index;
  }
  return {};
}

}  // namespace

Result<std::vector<ImportedRow>> import_guidellm(const json::value& report) {
  std::vector<ImportedRow> rows;
  if (Result<void> added = add_report(report, true, rows); !added) return added.error();
  return rows;
}

}  // namespace millrace::bench
