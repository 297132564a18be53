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
#include "results/point_summary.h"

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
    request.chunks.push_back({.at_ns = test_nanos(now).count() & 0x7fff'ffff'ffff, .num_tokens = 1}
    );
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

// Percentiles by the next rank: near enough for what is drawn.
inline Distribution make_test_distribution(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  Distribution out;
  out.count = static_cast<int64_t>(samples.size());
  for (const double sample : samples) out.sum += sample;
  out.mean = out.sum / static_cast<double>(samples.size());
  for (const double sample : samples) out.std += (sample - out.mean) * (sample - out.mean);
  out.std = std::sqrt(out.std / static_cast<double>(samples.size()));
  out.min = samples.front();
  out.max = samples.back();
  out.mean_interval = Interval{0.96 * out.mean, 1.05 * out.mean};
  for (const double rank : {25.0, 50.0, 75.0, 90.0, 99.0}) {
    const double value =
        samples[static_cast<size_t>(rank / 100.0 * static_cast<double>(samples.size() - 1))];
    out.percentiles.push_back({rank, value, Interval{0.95 * value, 1.08 * value}});
  }
  return out;
}

inline PointSummary make_test_summary(const PointRecord& record) {
  std::vector<double> ttft, ttft_scheduled, itl, tpot, e2e, e2e_scheduled, queue;
  const auto ms = [](Nanos time) {
    return std::chrono::duration<double, std::milli>(time).count();
  };
  int64_t num_tokens = 0;
  for (const RequestRecord& request : record.requests) {
    if (request.outcome != Outcome::kCompleted) continue;
    ttft.push_back(ms(*request.first_token - request.sent));
    ttft_scheduled.push_back(ms(*request.first_token - request.scheduled));
    e2e.push_back(ms(request.ended - request.sent));
    e2e_scheduled.push_back(ms(request.ended - request.scheduled));
    queue.push_back(ms(request.sent - request.scheduled));
    tpot.push_back(ms(request.ended - *request.first_token) / 39.0);
    for (size_t i = 1; i < request.chunks.size(); ++i) {
      itl.push_back(ms(request.chunks[i].at() - request.chunks[i - 1].at()));
    }
    num_tokens += request.num_output_tokens;
  }
  PointSummary row;
  row.plan = record.plan;
  row.started_unix_ns = record.started_unix_ns;
  const double duration = std::chrono::duration<double>(record.finished).count();
  row.duration_s = duration;
  row.num_completed = static_cast<int64_t>(ttft.size());
  row.num_failed = static_cast<int64_t>(record.requests.size()) - *row.num_completed;
  row.num_input_tokens = 1000 * *row.num_completed;
  row.num_output_tokens = num_tokens;
  row.request_throughput = static_cast<double>(ttft.size()) / duration;
  row.output_throughput = static_cast<double>(num_tokens) / duration;
  row.output_throughput_interval =
      Interval{0.97 * *row.output_throughput, 1.02 * *row.output_throughput};
  row.total_throughput = *row.output_throughput + 1000.0 * *row.request_throughput;
  row.concurrency = *row.request_throughput * make_test_distribution(e2e).mean / 1000.0;
  row[Metric::kTtft] = make_test_distribution(ttft);
  row[Metric::kTtftScheduled] = make_test_distribution(ttft_scheduled);
  row[Metric::kTpot] = make_test_distribution(tpot);
  row[Metric::kItl] = make_test_distribution(itl);
  row[Metric::kE2e] = make_test_distribution(e2e);
  row[Metric::kE2eScheduled] = make_test_distribution(e2e_scheduled);
  row[Metric::kQueueTime] = make_test_distribution(queue);
  return row;
}

}  // namespace millrace::bench
