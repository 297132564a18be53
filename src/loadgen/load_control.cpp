#include "loadgen/load_control.h"

#include <chrono>
#include <iterator>
#include <utility>

namespace millrace::bench {
namespace {

// A server that refuses every connection for so long is gone; a restart or a full backlog may take
// a moment.
constexpr std::chrono::seconds kGoneAfter{2};
constexpr int64_t kGoneRefusalsMin = 3;
// An open loop refuses faster than that.
constexpr int64_t kGoneRefusals = 1000;

}  // namespace

void LoadControl::begin(
    int64_t num_holds, std::optional<int64_t> places, std::optional<TimePoint> end_time
) {
  const std::lock_guard lock(mutex_);
  end_time_ = end_time;
  num_holds_ = num_holds;
  num_errors_ = 0;
  num_places_free_ = places;
}

void LoadControl::release_hold() {
  if (num_holds_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::lock_guard lock(mutex_);
  news_.notify_all();
}

LoadControl::Place LoadControl::take_place(std::unique_ptr<SessionRun>& run, TimePoint zero) {
  const std::lock_guard lock(mutex_);
  if (is_draining_.load(std::memory_order_relaxed)) return Place::kNoneAnyMore;
  if (!num_places_free_ || *num_places_free_ > 0) {
    if (num_places_free_) --*num_places_free_;
    run->admitted = Clock::now() - zero;
    return Place::kTaken;
  }
  // Threads wake a little apart: the schedule's order counts.
  const auto is_later = [&](const auto& other) { return other->scheduled > run->scheduled; };
  auto at = waiting_.end();
  while (at != waiting_.begin() && is_later(*std::prev(at))) --at;
  waiting_.insert(at, std::move(run));
  return Place::kQueued;
}

std::unique_ptr<SessionRun> LoadControl::release_place(TimePoint zero) {
  const std::lock_guard lock(mutex_);
  if (!num_places_free_) return nullptr;
  if (waiting_.empty() || is_draining_.load(std::memory_order_relaxed)) {
    ++*num_places_free_;
    return nullptr;
  }
  std::unique_ptr<SessionRun> next = std::move(waiting_.front());
  waiting_.pop_front();
  next->admitted = Clock::now() - zero;
  return next;
}

std::vector<std::unique_ptr<SessionRun>> LoadControl::take_waiting() {
  const std::lock_guard lock(mutex_);
  std::vector<std::unique_ptr<SessionRun>> waiting;
  for (std::unique_ptr<SessionRun>& run : waiting_) waiting.push_back(std::move(run));
  waiting_.clear();
  return waiting;
}

void LoadControl::note_ended(const RequestRecord& record, TimePoint now) {
  if (record.outcome != Outcome::kFailed) return;
  if (record.failure == FailureKind::kConnect || record.failure == FailureKind::kTls) {
    const int64_t now_ns = now.time_since_epoch().count();
    const int64_t num = num_refused_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (num == 1) refused_since_ns_.store(now_ns, std::memory_order_relaxed);
    const Nanos lasted(now_ns - refused_since_ns_.load(std::memory_order_relaxed));
    const bool is_gone = (num >= kGoneRefusalsMin && lasted >= kGoneAfter) || num >= kGoneRefusals;
    if (is_gone) end(StopReason::kServerGone);
  }
  const int64_t num_errors = num_errors_.fetch_add(1, std::memory_order_relaxed) + 1;
  if (max_errors_ >= 0 && num_errors > max_errors_ && record.phase == Phase::kMeasured) {
    end(StopReason::kTooManyErrors);
  }
}

void LoadControl::end(StopReason reason) {
  const std::lock_guard lock(mutex_);
  if (!reason_) reason_ = reason;
  is_draining_.store(true, std::memory_order_release);
  news_.notify_all();
}

std::optional<StopReason> LoadControl::reason() const {
  const std::lock_guard lock(mutex_);
  return reason_;
}

bool LoadControl::wait_done(
    const std::stop_token& stop, std::optional<TimePoint> until, bool until_end
) {
  const auto is_done = [&] { return num_holds_.load(std::memory_order_acquire) == 0; };
  const auto is_over = [&] { return is_done() || (until_end && reason_.has_value()); };
  std::unique_lock lock(mutex_);
  if (until) {
    news_.wait_until(lock, stop, *until, is_over);
  } else {
    news_.wait(lock, stop, is_over);
  }
  return is_done();
}

}  // namespace millrace::bench
