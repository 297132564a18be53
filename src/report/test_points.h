// Made-up points for the tests of this folder: seeded, with everything in them that a report shows.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/rng.h"
#include "results/point_record.h"

namespace millrace::bench {

struct TestLoad {
  std::string framework = "vllm";
  std::string model = "meta-llama/Llama-3.1-8B-Instruct";
  double request_rate = 10.0;
  int64_t num_requests = 60;
  double slowness = 1.0;  // times its latencies
  int64_t num_output_tokens = 40;
};

inline Nanos test_nanos(double seconds) {
  return Nanos(static_cast<int64_t>(seconds * 1e9));
}

inline RequestRecord make_test_request(const TestLoad& load, int64_t index, double at, Rng& rng) {
  const double pressure = 1.0 + load.request_rate / 20.0;
  const double itl = 0.008 * load.slowness * pressure * (0.7 + 0.6 * rng.unit());
  RequestRecord request;
  request.index = index;
  request.session = index;
  request.scheduled = request.admitted = test_nanos(at);
  request.sent = request.admitted + test_nanos(0.004 * pressure * rng.unit());
  double now = std::chrono::duration<double>(request.sent).count();
  now += 0.04 * load.slowness * pressure * (1.0 - std::log(1.0 - 0.95 * rng.unit()) * 0.4);
  request.first_chunk = request.first_text = request.first_token = test_nanos(now);
  for (int64_t token = 0; token < load.num_output_tokens; ++token) {
    if (token > 0) now += itl * (0.6 + 0.8 * rng.unit());
    request.chunks.push_back(Chunk::make(test_nanos(now), 1));
  }
  request.last_token = request.last_chunk = request.ended = test_nanos(now);
  request.num_prompt_tokens_planned = 1000;
  request.num_prompt_tokens = 1000;
  request.num_output_tokens_planned = request.num_output_tokens = load.num_output_tokens;
  request.output_source = TokenSource::kUsageDeltas;
  request.outcome = Outcome::kCompleted;
  request.http_status = 200;
  return request;
}

inline void add_test_surroundings(PointRecord& record) {
  const double duration = std::chrono::duration<double>(record.finished).count();
  for (double at = 0.0; at < duration; at += 0.25) {
    double running = 0.0;
    for (const RequestRecord& request : record.requests) {
      running += request.sent <= test_nanos(at) && request.ended > test_nanos(at) ? 1.0 : 0.0;
    }
    record.server.push_back({
        .at = test_nanos(at),
        .num_running = std::min(running, 24.0),
        .num_waiting = std::max(0.0, running - 24.0),
        .kv_usage = std::min(1.0, 0.02 * running),
    });
  }
  record.client = {.cpu_seconds = 0.4, .busiest_thread_share = 0.07, .num_connections = 32};
  record.calibration = Calibration{0.05, 0.11, 0.004, 0.02, 50'000.0};
  record.limits = {{"memory read", 24.1, "GB/s", 0.62}, {"dot products", 310.0, "GFLOP/s", 0.18}};
  record.environment = {
      {"command", "millrace bench rate --request-rate 1,10,20,inf --framework vllm=http://h:8000"},
      {"millrace", "0.1.0 (a95f00c)"},
      {"cpu", "AMD EPYC 7763, 2 cores"},
      {"kernel", "Linux 6.1.0-25-amd64"}};
}

// An infinite rate: all at once.
inline PointRecord make_test_record(const TestLoad& load, uint64_t seed = 1) {
  PointRecord record;
  record.plan.framework = record.plan.backend = load.framework;
  record.plan.model = record.plan.tokenizer = load.model;
  record.plan.base_url = "http://127.0.0.1:8000";
  record.plan.endpoint = "/v1/completions";
  record.plan.num_prompts = load.num_requests;
  record.plan.dataset = {.name = "random", .input_len = 1000, .output_len = load.num_output_tokens};
  record.plan.load.request_rate = load.request_rate;
  const bool is_burst = std::isinf(load.request_rate);
  record.plan.load.kind = is_burst ? LoadKind::kBurst : LoadKind::kGamma;
  record.started_unix_ns = 1'744'649'508'000'000'000 + static_cast<int64_t>(seed) * 1'000'000'000;
  Rng rng(seed);
  TestLoad pressed = load;
  if (is_burst) pressed.request_rate = 60.0;
  double at = 0.0;
  for (int64_t i = 0; i < load.num_requests; ++i) {
    record.requests.push_back(make_test_request(pressed, i, at, rng));
    if (!is_burst) at -= std::log(1.0 - rng.unit()) / load.request_rate;
    record.finished = std::max(record.finished, record.requests.back().ended);
  }
  add_test_surroundings(record);
  return record;
}

}  // namespace millrace::bench
