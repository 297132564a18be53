#include "server/server_metrics.h"

#include <algorithm>
#include <ratio>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace millrace {
namespace {

static_assert(std::is_same_v<Duration::period, std::nano>, "histograms of times count nanoseconds");
constexpr int64_t kNanosecondsPerSecond = 1'000'000'000;

Histogram histogram_of_seconds(std::vector<double> bounds) {
  return Histogram(std::move(bounds), kNanosecondsPerSecond);
}

std::vector<double> first_token_bounds() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1,  0.25,  0.5,   0.75,
          1.0,   2.5,   5.0,  7.5,  10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0};
}

// The first six are ours: vLLM's lowest bucket ends at 10 ms.
std::vector<double> inter_token_bounds() {
  return {0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1,  0.15, 0.2,
          0.3,    0.4,     0.5,    0.75,  1.0,    2.5,   5.0,  7.5,   10.0, 20.0,  40.0, 80.0};
}

std::vector<double> request_time_bounds() {
  return {0.3,  0.5,  0.8,  1.0,  1.5,   2.0,   2.5,   5.0,   10.0,   15.0,  20.0,
          30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0};
}

// 1, 2, 5, 10, 20, 50, ... up to the longest sequence, as vLLM builds them.
std::vector<double> token_bounds(int32_t num_sequence_tokens_max) {
  std::vector<double> bounds = {1.0};
  for (int64_t power = 1; power <= num_sequence_tokens_max; power *= 10) {
    for (const int64_t mantissa : {1, 2, 5}) {
      const int64_t bound = mantissa * power;
      if (bound > 1 && bound <= num_sequence_tokens_max) {
        bounds.push_back(static_cast<double>(bound));
      }
    }
  }
  return bounds;
}

void observe(Histogram& histogram, Duration duration) {
  histogram.observe(std::max<int64_t>(0, duration.count()));
}

HistogramReading reading_of(const StepSizes& sizes, std::span<const double> bounds) {
  return {
      .bounds = bounds,
      .counts = {sizes.num_steps.begin(), sizes.num_steps.end()},
      .sum = static_cast<double>(sizes.num_tokens),
  };
}

}  // namespace

ServerMetrics::ServerMetrics(std::string model_name, const EngineLimits& limits)
    : model_name_(std::move(model_name)),
      limits_(limits),
      time_to_first_token_(histogram_of_seconds(first_token_bounds())),
      inter_token_latency_(histogram_of_seconds(inter_token_bounds())),
      time_per_output_token_(histogram_of_seconds(inter_token_bounds())),
      e2e_latency_(histogram_of_seconds(request_time_bounds())),
      queue_time_(histogram_of_seconds(request_time_bounds())),
      prefill_time_(histogram_of_seconds(request_time_bounds())),
      decode_time_(histogram_of_seconds(request_time_bounds())),
      inference_time_(histogram_of_seconds(request_time_bounds())),
      num_prompt_tokens_(token_bounds(limits.num_sequence_tokens_max), 1),
      num_generation_tokens_(token_bounds(limits.num_sequence_tokens_max), 1),
      num_prefill_tokens_computed_(token_bounds(limits.num_sequence_tokens_max), 1),
      params_max_tokens_(token_bounds(limits.num_sequence_tokens_max), 1),
      params_n_({1.0, 2.0, 5.0, 10.0, 20.0}, 1) {}

void ServerMetrics::observe_first_token(Duration since_arrival) {
  observe(time_to_first_token_, since_arrival);
}

void ServerMetrics::observe_inter_token(Duration gap) {
  observe(inter_token_latency_, gap);
}

void ServerMetrics::observe_finished(
    FinishReason reason, const FinishedEvent& event, const SamplingParams& sampling
) {
  const Outcome outcome = reason == FinishReason::kStop     ? kStop
                          : reason == FinishReason::kLength ? kLength
                          : reason == FinishReason::kError  ? kError
                                                            : kAbort;
  num_finished_[outcome].add();

  const SequenceTimings& times = event.timings;
  observe(e2e_latency_, event.when - times.arrival);
  if (times.first_scheduled) observe(queue_time_, *times.first_scheduled - times.arrival);
  if (times.first_scheduled && times.first_token && times.last_token) {
    observe(prefill_time_, *times.first_token - *times.first_scheduled);
    observe(decode_time_, *times.last_token - *times.first_token);
    observe(inference_time_, *times.last_token - *times.first_scheduled);
    if (times.num_output_tokens > 1) {
      const Duration decode = *times.last_token - *times.first_token;
      observe(time_per_output_token_, decode / (times.num_output_tokens - 1));
    }
  }
  num_prompt_tokens_.observe(times.num_prompt_tokens);
  num_generation_tokens_.observe(times.num_output_tokens);
  if (times.first_token) {
    const int32_t num_computed = times.num_prompt_tokens - times.num_cached_tokens;
    num_prefill_tokens_computed_.observe(num_computed);
    num_computed_prompt_tokens_.add(num_computed);
    num_cached_prompt_tokens_.add(times.num_cached_tokens);
  }
  params_max_tokens_.observe(sampling.max_tokens);
  if (event.num_choices_unfinished == 0) params_n_.observe(sampling.n);
}

std::string ServerMetrics::render(const EngineStats& stats) const {
  const MetricLabel labels[] = {{"model_name", model_name_}, {"engine", "0"}};
  MetricsWriter writer(labels);
  write_state(stats, writer);
  write_counters(stats, writer);
  write_token_times(writer);
  write_request_times(writer);
  write_sizes(stats, writer);
  return writer.take();
}

void ServerMetrics::write_state(const EngineStats& stats, MetricsWriter& w) const {
  // Not stats.num_waiting: the engine does not see what came during its step.
  const int64_t num_waiting = std::max(0, stats.num_live_seqs - stats.num_running);
  const auto share = [&stats](int32_t num_blocks) {
    return stats.num_blocks > 0
               ? static_cast<double>(num_blocks) / static_cast<double>(stats.num_blocks)
               : 0.0;
  };
  const int32_t num_blocks_used =
      stats.num_blocks - stats.num_blocks_free - stats.num_blocks_cached;
  w.family(
      "vllm:num_requests_running",
      MetricType::kGauge,
      "Sequences that run: each choice of a request is one."
  );
  w.sample(int64_t{stats.num_running});
  w.family(
      "vllm:num_requests_waiting",
      MetricType::kGauge,
      "Sequences that were accepted and do not run."
  );
  w.sample(num_waiting);
  w.family(
      "vllm:num_requests_waiting_by_reason",
      MetricType::kGauge,
      "Sequences that wait, by reason: capacity (places or KV blocks), deferred (something else)."
  );
  w.sample(num_waiting, {{"reason", "capacity"}});
  w.sample(int64_t{0}, {{"reason", "deferred"}});
  w.gauge(
      "vllm:kv_cache_usage_perc",
      "Share of the KV blocks that running sequences use, 0 to 1: without those that are only kept "
      "in case their prefix comes again.",
      share(num_blocks_used)
  );
  w.gauge(
      "millrace:kv_cache_cached_perc",
      "Share of the KV blocks that hold prefixes and are used by nobody, 0 to 1: they are given "
      "away when needed.",
      share(stats.num_blocks_cached)
  );
  w.gauge(
      "millrace:num_waiting_tokens",
      "Tokens to be computed for the sequences that wait.",
      static_cast<double>(stats.num_waiting_tokens)
  );

  const int64_t num_cache_tokens = int64_t{limits_.num_blocks} * limits_.block_size;
  w.family(
      "vllm:cache_config_info", MetricType::kGauge, "The KV cache, in labels; the value is 1."
  );
  w.sample(
      int64_t{1},
      {{"block_size", std::to_string(limits_.block_size)},
       {"num_gpu_blocks", std::to_string(limits_.num_blocks)},
       {"kv_cache_size_tokens", std::to_string(num_cache_tokens)},
       {"enable_prefix_caching", limits_.enable_prefix_caching ? "True" : "False"}}
  );
}

void ServerMetrics::write_counters(const EngineStats& stats, MetricsWriter& w) const {
  w.counter(
      "vllm:prompt_tokens_total",
      "Prompt tokens of the sequences that got their first token.",
      stats.num_prompt_tokens
  );
  w.counter("vllm:generation_tokens_total", "Tokens generated.", stats.num_output_tokens);
  w.counter(
      "vllm:num_preemptions_total",
      "How often a sequence gave up its KV blocks to be computed again.",
      stats.num_preemptions
  );
  w.counter(
      "millrace:recomputed_tokens_total",
      "Tokens computed again after a preemption.",
      stats.num_tokens_recomputed
  );
  write_cache_counters(stats, w);
  write_refusals(stats, w);
  if (limits_.speculation) write_speculation(stats, w);
  w.family("vllm:request_success_total", MetricType::kCounter, "Choices that ended, by reason.");
  constexpr std::array<std::string_view, kNumOutcomes> kNames = {
      "stop", "length", "abort", "error"};
  for (size_t outcome = 0; outcome < kNumOutcomes; ++outcome) {
    w.sample(num_finished_[outcome].value(), {{"finished_reason", kNames[outcome]}});
  }
}

void ServerMetrics::write_cache_counters(const EngineStats& stats, MetricsWriter& w) const {
  const int64_t num_computed = num_computed_prompt_tokens_.value();
  const int64_t num_cached = num_cached_prompt_tokens_.value();
  w.counter(
      "vllm:prompt_tokens_cached_total",
      "Prompt tokens of the choices that ended that a prefix cache saved from being computed.",
      num_cached
  );
  w.family(
      "vllm:prompt_tokens_by_source_total",
      MetricType::kCounter,
      "Prompt tokens of the choices that ended, by where their keys and values came from."
  );
  w.sample(num_computed, {{"source", "local_compute"}});
  w.sample(num_cached, {{"source", "local_cache_hit"}});
  w.sample(int64_t{0}, {{"source", "external_kv_transfer"}});
  w.counter(
      "vllm:prefix_cache_queries_total",
      "Tokens looked for in the prefix cache.",
      stats.num_prefix_queries
  );
  w.counter(
      "vllm:prefix_cache_hits_total", "Tokens found in the prefix cache.", stats.num_prefix_hits
  );
  w.counter(
      "millrace:prefix_cache_resumed_total",
      "Sequences whose whole prompt was found, so that they began without computing it.",
      stats.num_resumed
  );
}

// Only where tokens are guessed, as in vLLM: a zero would look like guesses that are all wrong.
void ServerMetrics::write_speculation(const EngineStats& stats, MetricsWriter& w) const {
  const SpeculationStats& speculation = stats.speculation;
  w.counter(
      "vllm:spec_decode_num_drafts_total",
      "Steps of a choice in which next tokens were guessed.",
      speculation.num_drafts
  );
  w.counter(
      "vllm:spec_decode_num_draft_tokens_total",
      "Tokens that were guessed and computed.",
      speculation.num_draft_tokens
  );
  w.counter(
      "vllm:spec_decode_num_accepted_tokens_total",
      "Tokens that were guessed right: each saved a step.",
      speculation.num_accepted_tokens
  );
  w.family(
      "vllm:spec_decode_num_accepted_tokens_per_pos_total",
      MetricType::kCounter,
      "Tokens that were guessed right, by their position in the draft, from 0."
  );
  for (int32_t i = 0; i < limits_.speculation->num_speculative_tokens; ++i) {
    w.sample(
        speculation.num_accepted_per_position[static_cast<size_t>(i)],
        {{"position", std::to_string(i)}}
    );
  }
}

void ServerMetrics::write_refusals(const EngineStats& stats, MetricsWriter& w) const {
  w.family(
      "millrace:requests_refused_total",
      MetricType::kCounter,
      "Prompts that were refused though nothing was wrong with them, by the limit in their way."
  );
  for (const RefusalReason reason : kRefusalReasons) {
    w.sample(stats.num_refused[index_of(reason)], {{"reason", name_of(reason)}});
  }
}

void ServerMetrics::write_token_times(MetricsWriter& w) const {
  w.histogram(
      "vllm:time_to_first_token_seconds",
      "From the arrival of a request to the first token of a choice.",
      time_to_first_token_.read()
  );
  w.histogram(
      "vllm:inter_token_latency_seconds",
      "From a token of a choice to its next one; those of one step count as one.",
      inter_token_latency_.read()
  );
  w.histogram(
      "vllm:request_time_per_output_token_seconds",
      "The mean time between the tokens of a choice.",
      time_per_output_token_.read()
  );
}

void ServerMetrics::write_request_times(MetricsWriter& w) const {
  w.histogram(
      "vllm:e2e_request_latency_seconds",
      "From the arrival of a request to the end of a choice.",
      e2e_latency_.read()
  );
  w.histogram(
      "vllm:request_queue_time_seconds",
      "From the arrival of a request to the first step with a choice.",
      queue_time_.read()
  );
  w.histogram(
      "vllm:request_inference_time_seconds",
      "From the first step with a choice to its last token.",
      inference_time_.read()
  );
  w.histogram(
      "vllm:request_prefill_time_seconds",
      "From the first step with a choice to its first token.",
      prefill_time_.read()
  );
  w.histogram(
      "vllm:request_decode_time_seconds",
      "From the first token of a choice to its last.",
      decode_time_.read()
  );
}

void ServerMetrics::write_sizes(const EngineStats& stats, MetricsWriter& w) const {
  const std::vector<double> step_bounds(StepSizes::kBounds.begin(), StepSizes::kBounds.end());
  w.histogram(
      "vllm:iteration_tokens_total",
      "Tokens computed in a step of the engine.",
      reading_of(stats.step_sizes, step_bounds)
  );
  w.histogram(
      "vllm:request_prompt_tokens", "Prompt tokens of a choice.", num_prompt_tokens_.read()
  );
  w.histogram(
      "vllm:request_generation_tokens", "Tokens of a choice.", num_generation_tokens_.read()
  );
  w.histogram(
      "vllm:request_max_num_generation_tokens",
      "Tokens of a choice. (In vLLM, of the longest choice of a request.)",
      num_generation_tokens_.read()
  );
  w.histogram(
      "vllm:request_prefill_kv_computed_tokens",
      "Prompt tokens of a choice that were computed, not found in a cache.",
      num_prefill_tokens_computed_.read()
  );
  w.histogram(
      "vllm:request_params_max_tokens", "The max_tokens of a choice.", params_max_tokens_.read()
  );
  w.histogram("vllm:request_params_n", "The n of a request.", params_n_.read());
}

}  // namespace millrace
