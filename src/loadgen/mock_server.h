// A server that answers as an OpenAI-compatible one does, with times that are known exactly: to
// test and calibrate the load generator, and for people to try it on. No model.
//
// POST /v1/completions, /v1/chat/completions, /generate, /tokenize, /detokenize, /flush_cache,
// /reset_prefix_cache; GET /v1/models, /health, /version, /metrics (vLLM's names). Its tokenizer:
// each word is a token, "w123" is 123 and back (loadgen/mock/mock_tokenizer.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace millrace::bench {

// Of seeded times: `mean` exactly where `jitter` is 0, else uniform in mean * [1 - jitter, 1 +
// jitter].
struct MockTime {
  std::chrono::nanoseconds mean{0};
  double jitter = 0.0;
};

struct MockOptions {
  std::string address = "127.0.0.1:0";
  std::string model = "mock";
  std::string api_key;  // empty: everyone is admitted
  uint64_t seed = 0;    // times are a pure function of the seed and the request's number
  MockTime ttft, itl;
  int64_t tokens_per_chunk = 1;
  size_t num_threads = 1;
  std::optional<int64_t> max_concurrency;  // more wait their turn, first come, first served
  bool keeps_times = false;                // for actual_times(); of some 16 million tokens at most
  // What is wrong with it, for tests of clients. "Each so many-th" goes by the request's number:
  // with 3 the requests 2, 5, 8...
  double output_share = 1.0;               // of the tokens asked for, that come
  double prefix_hit_rate = 0.0;            // of prompt tokens, that usage calls cached
  bool sends_role_chunk = true;            // chat: a first chunk without text, at once
  bool sends_usage_deltas = true;          // honours continuous_usage_stats
  bool refuses_usage_deltas = false;       // 400 for continuous_usage_stats, as strict servers do
  std::optional<int64_t> fails_every;      // each so many-th request: HTTP 500
  std::optional<int64_t> breaks_every;     // each so many-th stream: closed in its middle
  std::optional<int64_t> malformed_every;  // each so many-th stream: an event that is no JSON
  std::optional<int64_t> error_every;      // each so many-th stream: an error event in its middle
  // The next request after so many makes it stop listening and close all connections.
  std::optional<int64_t> dies_after;
};

// What one answer really did: a machine that is late is seen here, not in the plan.
struct MockTimes {
  TimePoint read;  // when its request had been read
  // Since then, in the order of its tokens: when the chunk was given to the socket.
  std::vector<std::chrono::nanoseconds> tokens;
};

// Thread-safe. Serves from start() to the destructor.
class MockServer {
 public:
  // The error's `where` names the option or the address.
  static Result<std::unique_ptr<MockServer>> start(const MockOptions& options);
  ~MockServer();

  // "http://127.0.0.1:8001"
  const std::string& url() const;
  // Requests for tokens that were understood and had the key: each has a number, from 0 in order of
  // arrival.
  int64_t num_requests() const;
  // What it meant to do for its `number`-th request: the times of its tokens, from when its turn
  // came; that is, where max_concurrency holds nobody up, from when it had read the request. Tokens
  // of one chunk leave together, at the time of the first of them: a chunk of n tokens is followed
  // by the next n times `itl` later. An answer that is not streamed leaves with its last chunk.
  std::vector<std::chrono::nanoseconds> planned_times(int64_t number, int64_t num_tokens) const;
  // With keeps_times, of answers that have left whole (also those that were to break).
  std::optional<MockTimes> actual_times(int64_t number) const;

 private:
  struct Impl;
  explicit MockServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::bench
