#include "loadgen/server_figures.h"

#include <gtest/gtest.h>

namespace millrace::bench {
namespace {

ServerSample read(std::string_view text) {
  ServerSample sample;
  read_server_figures(MetricsText::parse(text), sample);
  return sample;
}

TEST(ServerFigures, OfVllmAddUpOverItsEngines) {
  const ServerSample expected = {
      .num_running = 12,
      .num_waiting = 3,
      .kv_usage = 0.5,
      .prefix_queries = 3000,
      .prefix_hits = 1000,
      .num_preemptions = 2,
      .prompt_tokens = 5e6,
      .generation_tokens = 700,
  };
  EXPECT_EQ(
      read(R"(# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 8.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting{engine="0",model_name="m"} 3.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="m",reason="capacity"} 3.0
vllm:num_requests_waiting{engine="1",model_name="m"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.75
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.25
vllm:prefix_cache_queries_total{engine="0",model_name="m"} 2000.0
vllm:prefix_cache_queries_total{engine="1",model_name="m"} 1000.0
vllm:prefix_cache_queries_created{engine="0",model_name="m"} 1.7e+09
vllm:prefix_cache_hits_total{engine="0",model_name="m"} 1000.0
vllm:num_preemptions_total{engine="0",model_name="m"} 2.0
vllm:prompt_tokens_total{engine="0",model_name="m"} 5e+06
vllm:generation_tokens_total{engine="0",model_name="m"} 700.0
)"),
      expected
  );
}

TEST(ServerFigures, OfAnOlderVllm) {
  const ServerSample sample = read(R"(vllm:gpu_cache_usage_perc{model_name="m"} 0.25
vllm:gpu_prefix_cache_queries_total{model_name="m"} 10
vllm:gpu_prefix_cache_hits_total{model_name="m"} 4
)");
  EXPECT_EQ(sample.kv_usage, 0.25);
  EXPECT_EQ(sample.prefix_queries, 10);
  EXPECT_EQ(sample.prefix_hits, 4);
  EXPECT_FALSE(sample.num_running.has_value());
}

TEST(ServerFigures, OfSglangCountOneRankOnly) {
  const ServerSample expected = {
      .num_running = 7,
      .num_waiting = 1,
      .kv_usage = 0.28,
      .prefix_queries = 300,
      .prefix_hits = 90,
      .num_preemptions = 4,
      .prompt_tokens = 300,
      .generation_tokens = 50,
  };
  EXPECT_EQ(
      read(
          R"(sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="0"} 7.0
sglang:num_running_reqs{engine_type="unified",model_name="m",tp_rank="1"} 7.0
sglang:num_queue_reqs{engine_type="unified",model_name="m",tp_rank="0"} 1.0
sglang:token_usage{engine_type="unified",model_name="m",tp_rank="0"} 0.28
sglang:token_usage{engine_type="unified",model_name="m",tp_rank="1"} 0.99
sglang:cache_hit_rate{engine_type="unified",model_name="m",tp_rank="0"} 0.9
sglang:num_retracted_reqs{engine_type="unified",model_name="m",tp_rank="0"} 1.0
sglang:num_retracted_requests_total{engine_type="unified",model_name="m",tp_rank="0"} 4.0
sglang:prompt_tokens_total{is_streaming="true",model_name="m"} 200.0
sglang:prompt_tokens_total{is_streaming="false",model_name="m"} 100.0
sglang:generation_tokens_total{model_name="m"} 50.0
sglang:cached_tokens_total{cache_source="device",model_name="m"} 80.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 10.0
)"
      ),
      expected
  );
}

TEST(ServerFigures, OfLlamaServerTensorRtAndOthers) {
  const ServerSample llama = read(
      "llamacpp:prompt_tokens_total 12\nllamacpp:tokens_predicted_total 34\n"
      "llamacpp:requests_processing 2\nllamacpp:requests_deferred 5\n"
      "llamacpp:kv_cache_usage_ratio 0.125\n"
  );
  EXPECT_EQ(
      llama,
      (ServerSample{
          .num_running = 2,
          .num_waiting = 5,
          .kv_usage = 0.125,
          .prompt_tokens = 12,
          .generation_tokens = 34,
      })
  );
  EXPECT_EQ(read("trtllm_num_requests_running{model_name=\"m\"} 3\n").num_running, 3);
  EXPECT_EQ(read("lmdeploy:num_requests_waiting{engine=\"0\"} 4\n").num_waiting, 4);
  EXPECT_EQ(read("tgi_queue_size 6\n").num_waiting, 6);
  EXPECT_EQ(read("dynamo_frontend_inflight_requests{model=\"m\"} 8\n").num_running, 8);
}

TEST(ServerFigures, LeaveAloneWhatIsNotSaid) {
  ServerSample sample = {.num_running = 1, .cpu_seconds = 2};
  read_server_figures(MetricsText::parse("vllm:num_requests_running NaN\nother 1\n"), sample);
  EXPECT_EQ(sample, (ServerSample{.num_running = 1, .cpu_seconds = 2}));
}

}  // namespace
}  // namespace millrace::bench
