// What a server tells Prometheus about the requests for one model, under the names and with the
// buckets of vLLM, so that its dashboards and routers work unchanged. The buckets of times between
// tokens begin lower, at 0.1 ms: small models are that fast.
// https://docs.vllm.ai/en/stable/usage/metrics/
#pragma once

#include <array>
#include <string>

#include "base/clock.h"
#include "base/metrics.h"
#include "engine/engine.h"
#include "sampling/sampling_params.h"
#include "sched/finished_event.h"

namespace millrace {

// Thread-safe; an observation neither waits nor allocates.
class ServerMetrics {
 public:
  // `model_name` becomes a label. `limits`: of the engine.
  ServerMetrics(std::string model_name, const EngineLimits& limits);

  // For each choice, measured where its tokens are turned into text.
  void observe_first_token(Duration since_arrival);
  // From the step of a token to the next step with one: as in vLLM, the tokens of one step are no
  // gap apart and count as one.
  void observe_inter_token(Duration gap);

  // For each choice that ends. `reason` is the client's view: a choice that was cancelled because
  // its text came to a stop string has stopped.
  void observe_finished(
      FinishReason reason, const FinishedEvent& event, const SamplingParams& sampling
  );

  // All families, in Prometheus's text format. `stats`: the engine's, of now.
  std::string render(const EngineStats& stats) const;

 private:
  // vLLM's finished_reason: a deadline is an abort, too.
  enum Outcome { kStop, kLength, kAbort, kError, kNumOutcomes };

  void write_state(const EngineStats& stats, MetricsWriter& writer) const;
  void write_counters(const EngineStats& stats, MetricsWriter& writer) const;
  void write_cache_counters(const EngineStats& stats, MetricsWriter& writer) const;
  void write_refusals(const EngineStats& stats, MetricsWriter& writer) const;
  void write_speculation(const EngineStats& stats, MetricsWriter& writer) const;
  void write_token_times(MetricsWriter& writer) const;
  void write_request_times(MetricsWriter& writer) const;
  void write_sizes(const EngineStats& stats, MetricsWriter& writer) const;

  const std::string model_name_;
  const EngineLimits limits_;

  std::array<Counter, kNumOutcomes> num_finished_;
  Counter num_computed_prompt_tokens_;  // of choices that ended, as the next
  Counter num_cached_prompt_tokens_;

  Histogram time_to_first_token_;
  Histogram inter_token_latency_;
  Histogram time_per_output_token_;
  Histogram e2e_latency_;
  Histogram queue_time_;
  Histogram prefill_time_;
  Histogram decode_time_;
  Histogram inference_time_;

  Histogram num_prompt_tokens_;
  Histogram num_generation_tokens_;
  Histogram num_prefill_tokens_computed_;
  Histogram params_max_tokens_;
  Histogram params_n_;
};

}  // namespace millrace
