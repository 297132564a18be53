// Every figure of a row under our own names, in one JSON object.
#include <fmt/format.h>

#include "report/figures.h"
#include "report/report.h"
#include "results/names.h"

namespace millrace::bench {
namespace {

std::string_view formulas_word(Formulas formulas) {
  switch (formulas) {
    case Formulas::kMillrace:
      return "millrace";
    case Formulas::kVllm:
      return "vllm";
    case Formulas::kSglang:
      return "sglang";
    case Formulas::kGuidellm:
      return "guidellm";
    case Formulas::kGuidellm01:
      return "guidellm-0.1";
    case Formulas::kAiperf:
      return "aiperf";
    case Formulas::kGrid:
      return "grid";
  }
  CHECK(false, "formulas without a name");
}

json::value interval_json(const std::optional<Interval>& interval) {
  if (!interval) return nullptr;
  json::object out;
  out["low"] = number_or_null(interval->low);
  out["high"] = number_or_null(interval->high);
  out["confidence"] = number_or_null(interval->confidence);
  return out;
}

json::object dataset_json(const DatasetPlan& dataset) {
  json::object out;
  out["name"] = dataset.name;
  out["input_len"] = count_or_null(dataset.input_len);
  out["output_len"] = count_or_null(dataset.output_len);
  out["hit_len"] = count_or_null(dataset.hit_len);
  out["range_ratio"] = dataset.range_ratio;
  out["range_ratio_mode"] = text_or_null(dataset.range_ratio_mode);
  out["sharegpt_output_len"] = count_or_null(dataset.sharegpt_output_len);
  out["seed"] = dataset.seed;
  out["ignores_eos"] = dataset.ignores_eos;
  return out;
}

json::object load_json(const LoadPlan& load) {
  json::object out;
  out["kind"] = json::string(to_string(load.kind));
  out["request_rate"] = rate_word(load.request_rate);
  out["burstiness"] = rate_word(load.burstiness);
  out["max_concurrency"] = count_or_null(load.max_concurrency);
  if (!load.ramp.empty()) {
    out["ramp"] = load.ramp;
    out["ramp_start_rps"] = load.ramp_start_rps;
    out["ramp_end_rps"] = load.ramp_end_rps;
  }
  return out;
}

json::object plan_json(const PointPlan& plan) {
  json::object out;
  const std::pair<std::string_view, const std::string*> kTexts[] = {
      {"name", &plan.name},
      {"framework", &plan.framework},
      {"version", &plan.version},
      {"device", &plan.device},
      {"backend", &plan.backend},
      {"base_url", &plan.base_url},
      {"endpoint", &plan.endpoint},
      {"model", &plan.model},
      {"tokenizer", &plan.tokenizer},
      {"label", &plan.label},
      {"tag", &plan.tag},
  };
  for (const auto& [key, text] : kTexts) out[key] = text_or_null(*text);
  json::object metadata;
  for (const auto& [key, value] : plan.metadata) metadata[key] = value;
  out["metadata"] = std::move(metadata);
  out["num_prompts"] = plan.num_prompts;
  out["num_warmups"] = plan.num_warmups;
  out["max_seconds"] = number_or_null(plan.max_seconds);
  out["dataset"] = dataset_json(plan.dataset);
  out["load"] = load_json(plan.load);
  json::object goals;
  goals["ttft_ms"] = number_or_null(plan.goals.ttft_ms);
  goals["tpot_ms"] = number_or_null(plan.goals.tpot_ms);
  goals["itl_ms"] = number_or_null(plan.goals.itl_ms);
  goals["e2e_ms"] = number_or_null(plan.goals.e2e_ms);
  out["goals"] = std::move(goals);
  out["price_per_hour"] = number_or_null(plan.price_per_hour);
  return out;
}

void add_totals(json::object& out, const PointSummary& row) {
  out["duration_s"] = number_or_null(row.duration_s);
  out["num_completed"] = count_or_null(row.num_completed);
  out["num_failed"] = count_or_null(row.num_failed);
  out["num_unfinished"] = count_or_null(row.num_unfinished);
  out["num_input_tokens"] = count_or_null(row.num_input_tokens);
  out["num_output_tokens"] = count_or_null(row.num_output_tokens);
  out["num_cached_tokens"] = count_or_null(row.num_cached_tokens);
  out["request_throughput"] = number_or_null(row.request_throughput);
  out["request_throughput_interval"] = interval_json(row.request_throughput_interval);
  out["input_throughput"] = number_or_null(row.input_throughput);
  out["output_throughput"] = number_or_null(row.output_throughput);
  out["output_throughput_interval"] = interval_json(row.output_throughput_interval);
  out["total_throughput"] = number_or_null(row.total_throughput);
  out["request_goodput"] = number_or_null(row.request_goodput);
  out["concurrency"] = number_or_null(row.concurrency);
  out["peak_output_throughput"] = number_or_null(row.peak_output_throughput);
  out["peak_concurrency"] = count_or_null(row.peak_concurrency);
  out["tokens_per_chunk"] = number_or_null(row.tokens_per_chunk);
  out["prefix_hit_rate"] = number_or_null(row.prefix_hit_rate);
  out["cost_per_million_tokens"] = number_or_null(row.cost_per_million_tokens);
  json::value steady = nullptr;
  if (row.steady) {
    json::object window;
    window["from_s"] = number_or_null(row.steady->low);
    window["to_s"] = number_or_null(row.steady->high);
    steady = std::move(window);
  }
  out["steady"] = std::move(steady);
}

json::value metric_json(const PointSummary& row, Metric metric) {
  if (!row[metric]) return nullptr;
  const Distribution& samples = *row[metric];
  json::object out;
  out["count"] = samples.count;
  out["mean"] = number_or_null(samples.mean);
  out["mean_interval"] = interval_json(samples.mean_interval);
  out["std"] = number_or_null(std_of(row, metric));
  out["min"] = number_or_null(min_of(row, metric));
  out["max"] = number_or_null(max_of(row, metric));
  json::object percentiles;
  json::object intervals;
  for (const Percentile& percentile : samples.percentiles) {
    percentiles[rank_word(percentile.rank)] = number_or_null(percentile.value);
    if (percentile.interval) {
      intervals[rank_word(percentile.rank)] = interval_json(percentile.interval);
    }
  }
  out["percentiles"] = std::move(percentiles);
  out["percentile_intervals"] = std::move(intervals);
  return out;
}

json::object verdict_json(const Verdict& verdict) {
  json::object out;
  out["trust"] = json::string(to_string(verdict.trust()));
  json::array findings;
  for (const Finding& finding : verdict.findings) {
    json::object one;
    one["trust"] = json::string(to_string(finding.trust));
    one["code"] = json::string(finding.code);
    one["message"] = finding.message;
    findings.push_back(std::move(one));
  }
  out["findings"] = std::move(findings);
  return out;
}

}  // namespace

std::string summary_json(const PointSummary& row) {
  json::object out;
  out["plan"] = plan_json(row.plan);
  out["formulas"] = json::string(formulas_word(row.formulas));
  out["started_unix_ns"] = row.started_unix_ns;
  add_totals(out, row);
  json::object metrics;
  for (size_t i = 0; i < kNumMetrics; ++i) {
    const Metric metric = static_cast<Metric>(i);
    metrics[to_string(metric)] = metric_json(row, metric);
  }
  out["metrics"] = std::move(metrics);
  json::object failures;
  for (const auto& [kind, count] : row.failures) failures[to_string(kind)] = count;
  out["failures"] = std::move(failures);
  json::array examples;
  for (const std::string& example : row.error_examples) examples.push_back(json::value(example));
  out["error_examples"] = std::move(examples);
  out["verdict"] = verdict_json(row.verdict);
  return to_json_text(out);
}

}  // namespace millrace::bench
