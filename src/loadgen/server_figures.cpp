#include "loadgen/server_figures.h"

#include <array>
#include <cmath>
#include <span>
#include <string_view>

namespace millrace::bench {
namespace {

using Figure = std::optional<double> ServerSample::*;

struct Names {
  Figure figure;
  bool is_share;  // 0 to 1: averaged
  // The first that is there counts; newer names stand first.
  std::array<std::string_view, 9> names;
};

constexpr std::array<Names, 8> kNames = {{
    {&ServerSample::num_running,
     false,
     {"vllm:num_requests_running",
      "sglang:num_running_reqs",
      "trtllm_num_requests_running",
      "llamacpp:requests_processing",
      "lmdeploy:num_requests_running",
      "tgi_batch_current_size",
      "dynamo_frontend_inflight_requests"}},
    {&ServerSample::num_waiting,
     false,
     {"vllm:num_requests_waiting",
      "sglang:num_queue_reqs",
      "trtllm_num_requests_waiting",
      "llamacpp:requests_deferred",
      "lmdeploy:num_requests_waiting",
      "tgi_queue_size",
      "dynamo_frontend_queued_requests"}},
    {&ServerSample::kv_usage,
     true,
     {"vllm:kv_cache_usage_perc",
      "vllm:gpu_cache_usage_perc",
      "sglang:token_usage",
      "trtllm_kv_cache_utilization",
      "llamacpp:kv_cache_usage_ratio",
      "lmdeploy:gpu_cache_usage_perc"}},
    {&ServerSample::prefix_queries,
     false,
     {"vllm:prefix_cache_queries_total",
      "vllm:prefix_cache_queries",
      "vllm:gpu_prefix_cache_queries_total",
      "vllm:gpu_prefix_cache_queries"}},
    {&ServerSample::prefix_hits,
     false,
     {"vllm:prefix_cache_hits_total",
      "vllm:prefix_cache_hits",
      "vllm:gpu_prefix_cache_hits_total",
      "vllm:gpu_prefix_cache_hits",
      "sglang:cached_tokens_total"}},
    // Not sglang:num_retracted_reqs, which is a gauge.
    {&ServerSample::num_preemptions,
     false,
     {"vllm:num_preemptions_total", "vllm:num_preemptions", "sglang:num_retracted_requests_total"}},
    {&ServerSample::prompt_tokens,
     false,
     {"vllm:prompt_tokens_total",
      "vllm:prompt_tokens",
      "sglang:prompt_tokens_total",
      "llamacpp:prompt_tokens_total",
      "lmdeploy:prompt_tokens_total"}},
    {&ServerSample::generation_tokens,
     false,
     {"vllm:generation_tokens_total",
      "vllm:generation_tokens",
      "sglang:generation_tokens_total",
      "llamacpp:tokens_predicted_total",
      "lmdeploy:generation_tokens_total"}},
}};

bool is_repeated(const MetricSample& sample) {
  return sample.label("tp_rank").value_or("0") != "0";
}

std::optional<double> read(const MetricsText& metrics, std::string_view name, bool is_share) {
  double sum = 0.0;
  size_t count = 0;
  for (const MetricSample& sample : metrics.samples()) {
    if (sample.name != name || !std::isfinite(sample.value) || is_repeated(sample)) continue;
    sum += sample.value;
    ++count;
  }
  if (count == 0) return std::nullopt;
  return is_share ? sum / static_cast<double>(count) : sum;
}

}  // namespace

void read_server_figures(const MetricsText& metrics, ServerSample& sample) {
  for (const Names& names : kNames) {
    for (const std::string_view name : names.names) {
      if (name.empty()) break;
      const std::optional<double> value = read(metrics, name, names.is_share);
      if (!value) continue;
      sample.*names.figure = value;
      break;
    }
  }
  // SGLang looks up every prompt token, and counts those that it found once it found some.
  const std::optional<double> looked_up = read(metrics, "sglang:prompt_tokens_total", false);
  if (looked_up && sample.prefix_hits && !sample.prefix_queries) sample.prefix_queries = looked_up;
}

}  // namespace millrace::bench
