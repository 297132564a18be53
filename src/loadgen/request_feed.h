// The requests of a phase in the order of the plan, worded ahead by a thread of its own, so that no
// thread that measures has to. Bounded: it stays at most so many bytes and requests ahead.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "base/result.h"
#include "loadgen/session_run.h"
#include "workload/arrivals.h"
#include "workload/dataset.h"

namespace millrace::bench {

struct FeedOptions {
  const Dataset* dataset = nullptr;       // outlives the feed, as do
  const RequestWriter* writer = nullptr;  //
  Protocol protocol = Protocol::kCompletions;
  Phase phase = Phase::kMeasured;
  int64_t first_session = 0;
  std::optional<int64_t> num_sessions;  // none: no end
  std::optional<int64_t> num_distinct;  // then the same ones again: warm-up of a small dataset
  int64_t first_index = 0;
  bool has_one_turn = false;                     // later turns are left out: warm-up
  bool is_trace = false;                         // due as the dataset says
  std::unique_ptr<Arrivals> arrivals = nullptr;  // due as they say; neither: due at once
};

class RequestFeed {
 public:
  struct Taken {
    std::unique_ptr<SessionRun> run;  // null: none now, or
    bool is_exhausted = false;        // none any more
  };

  explicit RequestFeed(FeedOptions options);
  ~RequestFeed();

  void start();
  // Blocks until `num_sessions` are ready, or all there are, or as many as fit ahead. The error is
  // the dataset's: it cannot give a session.
  Result<void> wait_ready(size_t num_sessions, const std::stop_token& stop);

  // From any thread; never waits for more than a lock. After an error it is exhausted.
  Taken take();
  bool is_exhausted() const;
  // How many requests there are in all; none: not known yet.
  std::optional<int64_t> num_requests() const;
  // What the dataset failed with.
  std::optional<Error> error() const;
  // Processor seconds of the building thread, so far.
  double cpu_seconds() const { return cpu_seconds_.load(std::memory_order_relaxed); }

 private:
  void run(const std::stop_token& stop);
  Result<std::unique_ptr<SessionRun>> build(int64_t number);
  Result<std::optional<Nanos>> due_of(const PlannedSession& session);
  bool is_full() const { return num_bytes_ >= kBytesMax || ready_.size() >= num_ahead_max_; }
  // A builder that was full goes on only when much is gone: it shares the processor.
  bool has_much_room() const {
    return num_bytes_ <= kBytesMax / 2 && ready_.size() <= num_ahead_max_ / 2;
  }

  static constexpr size_t kBytesMax = size_t{1} << 30;
  // Where the number is known, all of this is built before the clock.
  static constexpr size_t kRequestsMax = 100'000;
  // Where there is no end, the builder runs beside the load, and no further ahead than it must.
  static constexpr size_t kEndlessRequestsMax = 8192;

  FeedOptions options_;
  const size_t num_ahead_max_;
  int64_t next_index_;
  std::optional<Nanos> trace_start_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable_any room_;
  std::condition_variable_any news_;
  std::deque<std::unique_ptr<SessionRun>> ready_;
  size_t num_bytes_ = 0;  // of them
  bool is_waiting_for_room_ = false;
  bool is_built_ = false;  // nothing is added any more
  std::optional<Error> error_;
  std::atomic<double> cpu_seconds_ = 0.0;
  std::jthread thread_;
};

}  // namespace millrace::bench
