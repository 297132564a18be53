// What the threads of a load decide together: who is sent when places are few, how much is under
// way, and when and why the point ends. Every function may be called by any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

#include "base/clock.h"
#include "loadgen/session_run.h"
#include "results/point_record.h"

namespace millrace::bench {

class LoadControl {
 public:
  // `max_errors`: -1 is never, as in LoadOptions.
  explicit LoadControl(int64_t max_errors) : max_errors_(max_errors) {}

  // A phase begins. `num_holds` are what keeps it from being done. `places`: of an open loop's
  // limit; none: no limit. Nothing is sent after `end_time`. Called while no thread sends.
  void begin(int64_t num_holds, std::optional<int64_t> places, std::optional<TimePoint> end_time);

  // Whether something new may be sent.
  bool is_open(TimePoint now) const {
    return !is_draining_.load(std::memory_order_acquire) && (!end_time_ || now < *end_time_);
  }
  std::optional<TimePoint> end_time() const { return end_time_; }

  // What is under way holds the phase: a slot, a session, a source of arrivals.
  void add_hold() { num_holds_.fetch_add(1, std::memory_order_relaxed); }
  void release_hold();
  int64_t num_holds() const { return num_holds_.load(std::memory_order_relaxed); }

  // Open loop: the first of the schedule is served first.
  enum class Place {
    kTaken,   // `run` may go
    kQueued,  // it waits here, and comes out of a release_place() of some thread
    kNoneAnyMore,
  };
  // Who gets a place is `admitted` at that moment, in the order of the places; `zero` is the
  // clock's.
  Place take_place(std::unique_ptr<SessionRun>& run, TimePoint zero);
  // Null, or who has the place now.
  std::unique_ptr<SessionRun> release_place(TimePoint zero);
  // After end(): those that will never have a place.
  std::vector<std::unique_ptr<SessionRun>> take_waiting();

  // What became of a request.
  void note_ended(const RequestRecord& record, TimePoint now);
  // The server said something: it lives.
  void note_sign_of_life() {
    if (num_refused_.load(std::memory_order_relaxed) != 0) {
      num_refused_.store(0, std::memory_order_relaxed);
    }
  }

  // Something of the plan is due after the end time, and is not sent.
  void note_left_out() { has_left_out_.store(true, std::memory_order_relaxed); }
  bool has_left_out() const { return has_left_out_.load(std::memory_order_relaxed); }

  // Nothing new is sent from here on; the first reason counts.
  void end(StopReason reason);
  std::optional<StopReason> reason() const;
  bool is_server_gone() const { return reason() == StopReason::kServerGone; }

  // Until all holds are released (true), or the point is to end, `stop` is requested, or `until`.
  bool wait_done(const std::stop_token& stop, std::optional<TimePoint> until, bool until_end);

 private:
  const int64_t max_errors_;
  std::optional<TimePoint> end_time_;
  std::atomic<bool> is_draining_ = false;
  std::atomic<bool> has_left_out_ = false;
  std::atomic<int64_t> num_holds_ = 0;
  std::atomic<int64_t> num_errors_ = 0;
  std::atomic<int64_t> num_refused_ = 0;  // connections in a row, since any sign of life
  std::atomic<int64_t> refused_since_ns_ = 0;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable_any news_;
  std::optional<StopReason> reason_;
  std::optional<int64_t> num_places_free_;
  std::deque<std::unique_ptr<SessionRun>> waiting_;
};

}  // namespace millrace::bench
