// What `vllm bench serve --save-result` saves.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/figures.h"
#include "report/report.h"
#include "report/request_arrays.h"
#include "report/vllm_metrics.h"

namespace millrace::bench {

std::vector<VllmMetric> vllm_metrics(const PointSummary& row, const VllmOptions& options) {
  constexpr VllmMetric kMetrics[] = {
      {"ttft", "TTFT", "Time to First Token", Metric::kTtft},
      {"tpot", "TPOT", "Time per Output Token (excl. 1st token)", Metric::kTpot},
      {"itl", "ITL", "Inter-token Latency", Metric::kItl},
      {"e2el", "E2EL", "End-to-end Latency", Metric::kE2e},
      {"client_queue_time", "Client Queue Time", "Client-side Queueing", Metric::kQueueTime},
      {"e2el_including_client_queue",
       "E2EL incl. Client Queue",
       "Queue-inclusive End-to-end Latency",
       Metric::kE2eScheduled},
  };
  const LoadPlan& load = row.plan.load;
  const bool has_queue = load.max_concurrency.has_value();
  std::vector<VllmMetric> chosen;
  for (const VllmMetric& metric : kMetrics) {
    const auto& asked = options.metrics;
    if (std::find(asked.begin(), asked.end(), metric.key) == asked.end()) continue;
    if (metric.metric == Metric::kQueueTime && !has_queue) continue;
    const bool is_finite = std::isfinite(load.request_rate);
    if (metric.metric == Metric::kE2eScheduled && !(has_queue && is_finite)) continue;
    chosen.push_back(metric);
  }
  return chosen;
}

namespace {

void add_plan(json::object& out, const PointSummary& row) {
  const PointPlan& plan = row.plan;
  out["date"] = compact_date(row.started_unix_ns);
  out["endpoint_type"] = plan.backend;
  out["backend"] = plan.backend;
  out["label"] = text_or_null(plan.label);
  out["model_id"] = plan.model;
  out["tokenizer_id"] = text_or_null(plan.tokenizer);
  out["num_prompts"] = plan.num_prompts;
  for (const auto& [key, value] : plan.metadata) out[key] = value;
  out["request_rate"] = rate_word(plan.load.request_rate);
  out["burstiness"] = plan.load.burstiness;
  out["max_concurrency"] = count_or_null(plan.load.max_concurrency);
  if (!plan.load.ramp.empty()) {
    out["ramp_up_strategy"] = plan.load.ramp;
    out["ramp_up_start_rps"] = plan.load.ramp_start_rps;
    out["ramp_up_end_rps"] = plan.load.ramp_end_rps;
  }
}

void add_totals(json::object& out, const PointSummary& row) {
  out["duration"] = number_or_null(row.duration_s);
  out["completed"] = count_or_null(row.num_completed);
  out["failed"] = count_or_null(row.num_failed);
  out["total_input_tokens"] = count_or_null(row.num_input_tokens);
  out["total_output_tokens"] = count_or_null(row.num_output_tokens);
  out["request_throughput"] = number_or_null(row.request_throughput);
  out["request_goodput"] = number_or_null(row.request_goodput);
  out["output_throughput"] = number_or_null(row.output_throughput);
  out["total_token_throughput"] = number_or_null(row.total_throughput);
}

void add_details(json::object& out, const PointRecord& record) {
  RequestArrays arrays = vllm_request_arrays(record);
  out["input_lens"] = std::move(arrays.input_lens);
  out["output_lens"] = std::move(arrays.output_lens);
  out["ttfts"] = std::move(arrays.ttfts);
  out["itls"] = std::move(arrays.itls);
  out["latencies"] = std::move(arrays.latencies);
  out["start_times"] = std::move(arrays.start_times);
  out["queue_times"] = std::move(arrays.queue_times);
  out["generated_texts"] = std::move(arrays.texts);
  out["errors"] = std::move(arrays.errors);
}

}  // namespace

std::string vllm_json(
    const PointSummary& row, const PointRecord* details, const VllmOptions& options
) {
  json::object out;
  add_plan(out, row);
  add_totals(out, row);
  if (details != nullptr) add_details(out, *details);
  out["max_output_tokens_per_s"] = number_or_null(row.peak_output_throughput);
  out["max_concurrent_requests"] = count_or_null(row.peak_concurrency);
  // Of audio: vLLM's own client writes 0 for text.
  out["rtfx"] = 0.0;
  for (const VllmMetric& metric : vllm_metrics(row, options)) {
    const auto key = [&](std::string_view figure) {
      return fmt::format("{}_{}_ms", figure, metric.key);
    };
    out[key("mean")] = number_or_null(mean_of(row, metric.metric));
    out[key("median")] = number_or_null(percentile_of(row, metric.metric, 50.0));
    out[key("std")] = number_or_null(std_of(row, metric.metric));
    for (const double rank : options.ranks) {
      out[key(fmt::format("p{}", rank_word(rank)))] =
          number_or_null(percentile_of(row, metric.metric, rank));
    }
  }
  return to_json_text(out);
}

}  // namespace millrace::bench
