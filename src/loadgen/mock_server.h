// A server that answers as an OpenAI-compatible one does, with times that are known exactly: to
// test and calibrate the load generator, and for people to try it on. No model.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
  std::optional<int64_t> max_concurrency;  // more wait their turn
  // What is wrong with it, for tests of clients.
  double output_share = 1.0;               // of the tokens asked for, that come
  double prefix_hit_rate = 0.0;            // of prompt tokens, that usage calls cached
  bool sends_role_chunk = true;            // chat: a first chunk without text
  bool sends_usage_deltas = true;          // honours continuous_usage_stats
  bool refuses_usage_deltas = false;       // 400 for continuous_usage_stats, as strict servers do
  std::optional<int64_t> fails_every;      // each so many-th request: HTTP 500
  std::optional<int64_t> breaks_every;     // each so many-th stream: closed in its middle
  std::optional<int64_t> malformed_every;  // each so many-th stream: an event that is no JSON
  std::optional<int64_t> error_every;      // each so many-th stream: an error event in its middle
  std::optional<int64_t> dies_after;       // requests; then it stops listening and closes all
};

// Thread-safe. Serves from start() to the destructor.
class MockServer {
 public:
  static Result<std::unique_ptr<MockServer>> start(const MockOptions& options);
  ~MockServer();

  // "http://127.0.0.1:8001"
  const std::string& url() const;
  int64_t num_requests() const;
  // What it meant to do for its `number`-th request (from 0, in order of arrival): the times of its
  // tokens, from when it had read the request.
  std::vector<std::chrono::nanoseconds> planned_times(int64_t number, int64_t num_tokens) const;

 private:
  struct Impl;
  explicit MockServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::bench
