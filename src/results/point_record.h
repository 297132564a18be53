// One point of a benchmark: one load on one server, as it was planned and as it went. The one
// format that all reports are made of (docs/guides/benchmarks.md has it as JSONL). Plain values.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "results/request_record.h"

namespace millrace::bench {

enum class LoadKind {
  kConcurrency,  // closed loop: `max_concurrency` at any time
  kConstant,     // open loop, equal gaps
  kGamma,        // open loop, gamma gaps: burstiness 1 is Poisson
  kBurst,        // all at once
  kTrace,        // the dataset's own times
};

// How requests arrive.
struct LoadPlan {
  LoadKind kind = LoadKind::kBurst;
  double request_rate = std::numeric_limits<double>::infinity();  // per second; open loop
  double burstiness = 1.0;  // infinite with kConstant: begins with a gap, as vLLM, not a request
  std::optional<int64_t> max_concurrency;
  std::string ramp;  // "", "linear" or "exponential"
  double ramp_start_rps = 0.0;
  double ramp_end_rps = 0.0;

  // Arrivals do not wait for the server.
  bool is_open_loop() const {
    return kind == LoadKind::kConstant || kind == LoadKind::kGamma || kind == LoadKind::kTrace;
  }
  friend bool operator==(const LoadPlan&, const LoadPlan&) = default;
};

// What the requests hold, as far as reports print it.
struct DatasetPlan {
  std::string name;  // as --dataset-name: "random", "sharegpt", ...
  std::optional<int64_t> input_len;
  std::optional<int64_t> output_len;
  std::optional<int64_t> hit_len;  // tokens of the prompt that the server is to find in its cache
  double range_ratio = 0.0;
  std::string range_ratio_mode;  // "vllm", "sglang" or "" where lengths are fixed
  std::optional<int64_t> sharegpt_output_len;
  uint64_t seed = 0;
  bool ignores_eos = false;  // the server was asked for exactly the planned output

  friend bool operator==(const DatasetPlan&, const DatasetPlan&) = default;
};

// Good requests are at or below all that are set.
struct Goals {
  std::optional<double> ttft_ms, tpot_ms, itl_ms, e2e_ms;

  bool any() const { return ttft_ms || tpot_ms || itl_ms || e2e_ms; }
  friend bool operator==(const Goals&, const Goals&) = default;
};

struct PointPlan {
  std::string name;       // of the row: "synchronous", "constant@2.60", "concurrency 8"
  std::string framework;  // what the server is called where several are compared: "vllm"
  std::string version;    // of the server, if it says
  std::string device;     // what it runs on: "7K83;A10"
  std::string backend;    // as --backend
  std::string base_url;
  std::string endpoint;  // "/v1/completions"
  bool is_streamed = true;
  std::string model;
  std::string tokenizer;
  std::string label, tag;
  std::vector<std::pair<std::string, std::string>> metadata;  // --metadata K=V
  int64_t num_prompts = 0;
  int64_t num_warmups = 0;
  std::optional<double> max_seconds;
  DatasetPlan dataset;
  LoadPlan load;
  Goals goals;
  std::optional<double> price_per_hour;  // of the server's machine, in any currency

  friend bool operator==(const PointPlan&, const PointPlan&) = default;
};

// What this program itself used.
struct ClientUse {
  int32_t num_threads = 1;  // that send and receive
  double cpu_seconds = 0.0;
  double busiest_thread_share = 0.0;  // of one core, over the point; 1.0: saturated
  int64_t num_connections = 0;        // that were opened
  int64_t open_files_limit = 0;

  friend bool operator==(const ClientUse&, const ClientUse&) = default;
};

// What the server said of itself (/metrics, under vLLM's, SGLang's or our names) and what the
// machine said of the server's process at one time. none: not said.
struct ServerSample {
  Nanos at{0};
  std::optional<double> num_running, num_waiting, kv_usage;
  std::optional<double> prefix_queries, prefix_hits, num_preemptions;  // counters, in tokens, once
  std::optional<double> prompt_tokens, generation_tokens;              // counters
  std::optional<double> cpu_seconds, resident_bytes;                   // of a local process
  std::optional<double> gpu_utilization, gpu_memory_bytes, gpu_watts;  // of nvidia-smi; 0 to 1

  friend bool operator==(const ServerSample&, const ServerSample&) = default;
};

// The client's own floor: what it adds to each measured time, against the built-in mock at this
// point's load.
struct Calibration {
  double ttft_p50_ms = 0.0, ttft_p99_ms = 0.0;
  double itl_p50_ms = 0.0, itl_p99_ms = 0.0;
  double requests_per_s = 0.0;  // that the mock answered; below the load: the client was the limit

  friend bool operator==(const Calibration&, const Calibration&) = default;
};

// A limit of the hardware, measured beside the point, and the share of it that was reached.
struct HardwareLimit {
  std::string name;  // "memory read"
  double value = 0.0;
  std::string unit;  // "GB/s"
  std::optional<double> share;

  friend bool operator==(const HardwareLimit&, const HardwareLimit&) = default;
};

enum class StopReason {
  kAllDone,
  kMaxSeconds,
  kPrecise,
  kInterrupted,
  kServerGone,
  kTooManyErrors
};

struct PointRecord {
  PointPlan plan;
  int64_t started_unix_ns = 0;  // wall clock at the point's zero
  Nanos first_dispatch{0};      // the first measured `admitted`: where most durations begin
  // The last measured end; of a point that was ended, or ran for its time, at least that end. A
  // wait for answers that then did not come is no part of it.
  Nanos finished{0};
  StopReason stop_reason = StopReason::kAllDone;
  std::vector<RequestRecord> requests;  // by index; every phase
  ClientUse client;
  std::vector<ServerSample> server;  // first: before the load; last: after it
  std::optional<Calibration> calibration;
  std::vector<HardwareLimit> limits;
  // of where the client ran: "cpu", "kernel", "millrace", "command", ...
  std::vector<std::pair<std::string, std::string>> environment;

  friend bool operator==(const PointRecord&, const PointRecord&) = default;
};

}  // namespace millrace::bench
