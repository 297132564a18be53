#include "server/server_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "server/metrics_text.h"

namespace millrace {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr EngineLimits kLimits{
    .num_sequence_tokens_max = 8192, .block_size = 16, .num_blocks = 1000};
const std::string kLabels = R"({model_name="tiny",engine="0"})";

std::string labels_with(const std::string& more) {
  return R"({model_name="tiny",engine="0",)" + more + "}";
}

// A choice of 11 tokens: waited 10 ms, first token after 30 ms more, then one each 2 ms.
FinishedEvent finished_event() {
  const TimePoint arrival{seconds(100)};
  FinishedEvent event;
  event.timings = {
      .arrival = arrival,
      .first_scheduled = arrival + milliseconds(10),
      .first_token = arrival + milliseconds(40),
      .last_token = arrival + milliseconds(60),
      .num_prompt_tokens = 100,
      .num_output_tokens = 11,
      .num_cached_tokens = 48,
  };
  event.when = arrival + milliseconds(60);
  return event;
}

TEST(ServerMetrics, CarryTheNamesOfVllm) {
  const ServerMetrics metrics("tiny", kLimits);
  const MetricsText text = parse_metrics(metrics.render({}));
  const std::map<std::string, std::string> expected = {
      {"millrace:kv_cache_cached_perc", "gauge"},
      {"millrace:num_waiting_tokens", "gauge"},
      {"millrace:prefix_cache_resumed_total", "counter"},
      {"millrace:recomputed_tokens_total", "counter"},
      {"millrace:requests_refused_total", "counter"},
      {"vllm:cache_config_info", "gauge"},
      {"vllm:e2e_request_latency_seconds", "histogram"},
      {"vllm:generation_tokens_total", "counter"},
      {"vllm:inter_token_latency_seconds", "histogram"},
      {"vllm:iteration_tokens_total", "histogram"},
      {"vllm:kv_cache_usage_perc", "gauge"},
      {"vllm:num_preemptions_total", "counter"},
      {"vllm:num_requests_running", "gauge"},
      {"vllm:num_requests_waiting", "gauge"},
      {"vllm:num_requests_waiting_by_reason", "gauge"},
      {"vllm:prefix_cache_hits_total", "counter"},
      {"vllm:prefix_cache_queries_total", "counter"},
      {"vllm:prompt_tokens_by_source_total", "counter"},
      {"vllm:prompt_tokens_cached_total", "counter"},
      {"vllm:prompt_tokens_total", "counter"},
      {"vllm:request_decode_time_seconds", "histogram"},
      {"vllm:request_generation_tokens", "histogram"},
      {"vllm:request_inference_time_seconds", "histogram"},
      {"vllm:request_max_num_generation_tokens", "histogram"},
      {"vllm:request_params_max_tokens", "histogram"},
      {"vllm:request_params_n", "histogram"},
      {"vllm:request_prefill_kv_computed_tokens", "histogram"},
      {"vllm:request_prefill_time_seconds", "histogram"},
      {"vllm:request_prompt_tokens", "histogram"},
      {"vllm:request_queue_time_seconds", "histogram"},
      {"vllm:request_success_total", "counter"},
      {"vllm:request_time_per_output_token_seconds", "histogram"},
      {"vllm:time_to_first_token_seconds", "histogram"},
  };
  EXPECT_EQ(text.types, expected);
  // Every reason is there from the start, so that rates have a zero to begin at.
  for (const std::string reason : {"stop", "length", "abort", "error"}) {
    const std::string labels = labels_with("finished_reason=\"" + reason + "\"");
    EXPECT_EQ(text.at("vllm:request_success_total" + labels), 0.0);
  }
}

TEST(ServerMetrics, TellOfSpeculationOnlyWhereItIsOn) {
  EngineLimits limits = kLimits;
  limits.speculation = NgramSpeculation{.num_speculative_tokens = 3};
  const ServerMetrics metrics("tiny", limits);
  EngineStats stats;
  stats.speculation.add(3, 2);
  stats.speculation.add(2, 1);
  stats.speculation.add(3, 0);
  const MetricsText text = parse_metrics(metrics.render(stats));
  EXPECT_EQ(text.at("vllm:spec_decode_num_drafts_total" + kLabels), 3.0);
  EXPECT_EQ(text.at("vllm:spec_decode_num_draft_tokens_total" + kLabels), 8.0);
  EXPECT_EQ(text.at("vllm:spec_decode_num_accepted_tokens_total" + kLabels), 3.0);
  const auto at_position = [&text](const std::string& position) {
    return text.at(
        "vllm:spec_decode_num_accepted_tokens_per_pos_total" +
        labels_with(R"(position=")" + position + R"(")")
    );
  };
  EXPECT_EQ(at_position("0"), 2.0);
  EXPECT_EQ(at_position("1"), 1.0);
  EXPECT_EQ(at_position("2"), 0.0);
  const std::string without = ServerMetrics("tiny", kLimits).render(stats);
  EXPECT_EQ(without.find("spec_decode"), without.npos);
}

TEST(ServerMetrics, TellTheStateOfTheEngine) {
  const ServerMetrics metrics("tiny", kLimits);
  EngineStats stats{
      .num_running = 3,
      .num_waiting = 1,
      .num_live_seqs = 5,
      .num_blocks_free = 650,
      .num_blocks_cached = 100,
      .num_blocks = 1000,
      .num_waiting_tokens = 4000,
      .num_tokens_recomputed = 33,
      .num_prompt_tokens = 70,
      .num_output_tokens = 900,
      .num_preemptions = 4,
      .num_prefix_queries = 1000,
      .num_prefix_hits = 600,
      .num_resumed = 5,
  };
  stats.num_refused[index_of(RefusalReason::kQueuedTokens)] = 11;
  for (const int64_t size : {1, 2, 100, 20000}) stats.step_sizes.add(size);
  const MetricsText text = parse_metrics(metrics.render(stats));
  EXPECT_EQ(text.at("vllm:num_requests_running" + kLabels), 3.0);
  EXPECT_EQ(text.at("vllm:num_requests_waiting" + kLabels), 2.0);
  EXPECT_EQ(
      text.at("vllm:num_requests_waiting_by_reason" + labels_with(R"(reason="capacity")")), 2.0
  );
  EXPECT_EQ(text.at("vllm:kv_cache_usage_perc" + kLabels), 0.25) << "what is kept is not in use";
  EXPECT_EQ(text.at("millrace:kv_cache_cached_perc" + kLabels), 0.1);
  EXPECT_EQ(text.at("millrace:num_waiting_tokens" + kLabels), 4000.0);
  EXPECT_EQ(text.at("millrace:recomputed_tokens_total" + kLabels), 33.0);
  EXPECT_EQ(text.at("vllm:prefix_cache_queries_total" + kLabels), 1000.0);
  EXPECT_EQ(text.at("vllm:prefix_cache_hits_total" + kLabels), 600.0);
  EXPECT_EQ(text.at("millrace:prefix_cache_resumed_total" + kLabels), 5.0);
  for (const RefusalReason reason : kRefusalReasons) {
    const std::string labels = labels_with(R"(reason=")" + std::string(name_of(reason)) + R"(")");
    const double expected = reason == RefusalReason::kQueuedTokens ? 11.0 : 0.0;
    EXPECT_EQ(text.at("millrace:requests_refused_total" + labels), expected);
  }
  EXPECT_EQ(text.at("vllm:prompt_tokens_total" + kLabels), 70.0);
  EXPECT_EQ(text.at("vllm:generation_tokens_total" + kLabels), 900.0);
  EXPECT_EQ(text.at("vllm:num_preemptions_total" + kLabels), 4.0);
  EXPECT_EQ(text.at("vllm:iteration_tokens_total_count" + kLabels), 4.0);
  EXPECT_EQ(text.at("vllm:iteration_tokens_total_sum" + kLabels), 20103.0);
  EXPECT_EQ(text.at("vllm:iteration_tokens_total_bucket" + labels_with(R"(le="8.0")")), 2.0);
  EXPECT_EQ(
      text.at(
          "vllm:cache_config_info" +
          labels_with(R"(block_size="16",num_gpu_blocks="1000",kv_cache_size_tokens="16000",)"
                      R"(enable_prefix_caching="False")")
      ),
      1.0
  );
}

TEST(ServerMetrics, TellTheTimesOfAChoice) {
  ServerMetrics metrics("tiny", kLimits);
  SamplingParams sampling;
  sampling.max_tokens = 300;
  sampling.n = 3;
  FinishedEvent event = finished_event();
  event.num_choices_unfinished = 1;
  metrics.observe_finished(FinishReason::kStop, event, sampling);
  event.num_choices_unfinished = 0;
  metrics.observe_finished(FinishReason::kLength, event, sampling);
  const MetricsText text = parse_metrics(metrics.render({}));
  const auto mean = [&](const std::string& name) {
    return text.at(name + "_sum" + kLabels) / text.at(name + "_count" + kLabels);
  };
  EXPECT_DOUBLE_EQ(mean("vllm:request_queue_time_seconds"), 0.010);
  EXPECT_DOUBLE_EQ(mean("vllm:request_prefill_time_seconds"), 0.030);
  EXPECT_DOUBLE_EQ(mean("vllm:request_decode_time_seconds"), 0.020);
  EXPECT_DOUBLE_EQ(mean("vllm:request_inference_time_seconds"), 0.050);
  EXPECT_DOUBLE_EQ(mean("vllm:e2e_request_latency_seconds"), 0.060);
  EXPECT_DOUBLE_EQ(mean("vllm:request_time_per_output_token_seconds"), 0.002);
  EXPECT_EQ(mean("vllm:request_prompt_tokens"), 100.0);
  EXPECT_EQ(mean("vllm:request_generation_tokens"), 11.0);
  EXPECT_EQ(mean("vllm:request_prefill_kv_computed_tokens"), 52.0);
  EXPECT_EQ(mean("vllm:request_params_max_tokens"), 300.0);
  EXPECT_EQ(mean("vllm:request_params_n"), 3.0);
  EXPECT_EQ(text.at("vllm:request_params_n_count" + kLabels), 1.0) << "once a request";
  EXPECT_EQ(text.at("vllm:prompt_tokens_cached_total" + kLabels), 96.0);
  const auto from = [&](const std::string& source) {
    return text.at("vllm:prompt_tokens_by_source_total" + labels_with("source=\"" + source + "\""));
  };
  EXPECT_EQ(from("local_compute"), 104.0);
  EXPECT_EQ(from("local_cache_hit"), 96.0);
  EXPECT_EQ(from("external_kv_transfer"), 0.0);
}

TEST(ServerMetrics, AFullyCachedPromptTookNoTokens) {
  ServerMetrics metrics("tiny", kLimits);
  FinishedEvent event = finished_event();
  event.timings.num_cached_tokens = event.timings.num_prompt_tokens;
  event.timings.num_preemptions = 2;
  event.timings.num_recomputed_tokens = 150;  // which are no prompt tokens
  metrics.observe_finished(FinishReason::kStop, event, {});
  const MetricsText text = parse_metrics(metrics.render({}));
  EXPECT_EQ(text.at("vllm:request_prefill_kv_computed_tokens_sum" + kLabels), 0.0);
  EXPECT_EQ(text.at("vllm:request_prefill_kv_computed_tokens_count" + kLabels), 1.0);
  EXPECT_EQ(text.at("vllm:prompt_tokens_cached_total" + kLabels), 100.0);
}

TEST(ServerMetrics, CountEndsByReason) {
  ServerMetrics metrics("tiny", kLimits);
  const std::pair<FinishReason, int> ends[] = {
      {FinishReason::kStop, 1},
      {FinishReason::kLength, 2},
      {FinishReason::kCancelled, 3},
      {FinishReason::kDeadline, 4},
      {FinishReason::kError, 5},
  };
  for (const auto& [reason, count] : ends) {
    // It never ran: there are no times to tell.
    FinishedEvent event{.reason = reason};
    for (int i = 0; i < count; ++i) metrics.observe_finished(reason, event, {});
  }
  const MetricsText text = parse_metrics(metrics.render({}));
  const auto count_of = [&](const std::string& reason) {
    return text.at(
        "vllm:request_success_total" + labels_with("finished_reason=\"" + reason + "\"")
    );
  };
  EXPECT_EQ(count_of("stop"), 1.0);
  EXPECT_EQ(count_of("length"), 2.0);
  EXPECT_EQ(count_of("abort"), 7.0);
  EXPECT_EQ(count_of("error"), 5.0);
  EXPECT_EQ(text.at("vllm:request_queue_time_seconds_count" + kLabels), 0.0);
  EXPECT_EQ(text.at("vllm:request_prefill_kv_computed_tokens_count" + kLabels), 0.0);
  EXPECT_EQ(text.at("vllm:request_time_per_output_token_seconds_count" + kLabels), 0.0);
}

TEST(ServerMetrics, SeeGapsBelowAMillisecond) {
  ServerMetrics metrics("tiny", kLimits);
  metrics.observe_first_token(microseconds(900));
  metrics.observe_inter_token(microseconds(90));
  metrics.observe_inter_token(microseconds(200));
  metrics.observe_inter_token(microseconds(4000));
  metrics.observe_inter_token(-microseconds(1));  // clocks of two places may disagree
  const MetricsText text = parse_metrics(metrics.render({}));
  const auto below = [&](const std::string& bound) {
    return text.at("vllm:inter_token_latency_seconds_bucket" + labels_with("le=\"" + bound + "\""));
  };
  EXPECT_EQ(below("0.0001"), 2.0);
  EXPECT_EQ(below("0.00025"), 3.0);
  EXPECT_EQ(below("0.0025"), 3.0);
  EXPECT_EQ(below("0.005"), 4.0);
  EXPECT_EQ(text.at("vllm:time_to_first_token_seconds_bucket" + labels_with(R"(le="0.001")")), 1.0);
}

// The bounds as they stand in vLLM's loggers.py; ours are added below.
TEST(ServerMetrics, HaveTheBucketsOfVllm) {
  const ServerMetrics metrics("tiny", kLimits);
  const std::string text = metrics.render({});
  const auto bounds_of = [&](const std::string& name) {
    std::string bounds;
    const std::string begin = "\n" + name + "_bucket" + R"({model_name="tiny",engine="0",le=")";
    for (size_t at = text.find(begin); at != text.npos; at = text.find(begin, at + 1)) {
      const size_t bound = at + begin.size();
      bounds += text.substr(bound, text.find('"', bound) - bound) + " ";
    }
    return bounds;
  };
  EXPECT_EQ(
      bounds_of("vllm:time_to_first_token_seconds"),
      "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0 "
      "160.0 640.0 2560.0 +Inf "
  );
  const std::string inter_token =
      "0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 "
      "0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0 +Inf ";
  EXPECT_EQ(bounds_of("vllm:inter_token_latency_seconds"), inter_token);
  EXPECT_EQ(bounds_of("vllm:request_time_per_output_token_seconds"), inter_token);
  const std::string request_time =
      "0.3 0.5 0.8 1.0 1.5 2.0 2.5 5.0 10.0 15.0 20.0 30.0 40.0 50.0 60.0 120.0 240.0 480.0 960.0 "
      "1920.0 7680.0 +Inf ";
  for (const std::string part :
       {"e2e_request_latency", "request_queue_time", "request_decode_time"}) {
    EXPECT_EQ(bounds_of("vllm:" + part + "_seconds"), request_time);
  }
  EXPECT_EQ(
      bounds_of("vllm:request_prompt_tokens"),
      "1.0 2.0 5.0 10.0 20.0 50.0 100.0 200.0 500.0 1000.0 2000.0 5000.0 +Inf "
  );
  EXPECT_EQ(
      bounds_of("vllm:iteration_tokens_total"),
      "1.0 8.0 16.0 32.0 64.0 128.0 256.0 512.0 1024.0 2048.0 4096.0 8192.0 16384.0 +Inf "
  );
  EXPECT_EQ(bounds_of("vllm:request_params_n"), "1.0 2.0 5.0 10.0 20.0 +Inf ");
}

TEST(ServerMetrics, AreReadWhileManyThreadsObserve) {
  ServerMetrics metrics("tiny", kLimits);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < 2000; ++i) {
          metrics.observe_first_token(microseconds(i));
          metrics.observe_inter_token(microseconds(i));
          metrics.observe_finished(FinishReason::kStop, finished_event(), {});
        }
      });
    }
    for (int i = 0; i < 20; ++i) parse_metrics(metrics.render({}));
  }
  const MetricsText text = parse_metrics(metrics.render({}));
  EXPECT_EQ(text.at("vllm:inter_token_latency_seconds_count" + kLabels), 6000.0);
  EXPECT_EQ(text.at("vllm:e2e_request_latency_seconds_count" + kLabels), 6000.0);
}

}  // namespace
}  // namespace millrace
