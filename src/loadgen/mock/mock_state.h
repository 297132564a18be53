// What the threads of one mock server share.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "loadgen/mock/mock_answer.h"
#include "loadgen/mock/mock_turns.h"
#include "loadgen/mock_server.h"

namespace millrace::bench {

// Thread-safe.
class MockState {
 public:
  MockState(const MockOptions& options, int64_t created_s)
      : options_(options), created_s_(created_s), turns_(options.max_concurrency) {}

  const MockOptions& options() const { return options_; }
  int64_t created_s() const { return created_s_; }
  MockTurns& turns() { return turns_; }

  // none: it was to die before this request.
  std::optional<int64_t> take_number();
  int64_t num_requests() const { return num_requests_.load(std::memory_order_relaxed); }

  // For its counters. `answer` has left, whole or not.
  void note_end(const MockAnswer& answer);
  void note_tokens(int64_t num_tokens) { add(num_output_tokens_, num_tokens); }
  void note_flush() { add(num_flushes_, 1); }

  void keep_times(int64_t number, MockTimes times);
  std::optional<MockTimes> times(int64_t number) const;

  // Prometheus's text.
  std::string metrics() const;

 private:
  static void add(std::atomic<int64_t>& value, int64_t n) {
    value.fetch_add(n, std::memory_order_relaxed);
  }

  const MockOptions options_;
  const int64_t created_s_;
  MockTurns turns_;
  std::atomic<int64_t> num_requests_ = 0;
  std::atomic<int64_t> num_prompt_tokens_ = 0;
  std::atomic<int64_t> num_cached_tokens_ = 0;
  std::atomic<int64_t> num_output_tokens_ = 0;
  std::atomic<int64_t> num_finished_ = 0;
  std::atomic<int64_t> num_flushes_ = 0;

  mutable std::mutex times_mutex_;  // guards what follows
  std::unordered_map<int64_t, MockTimes> times_;
  size_t num_times_ = 0;
};

}  // namespace millrace::bench
