#include "loadgen/load_monitor.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>
#include <utility>

namespace millrace::bench {
namespace {

constexpr std::chrono::milliseconds kInterval{200};
constexpr std::chrono::seconds kSampleWindow{5};
constexpr std::chrono::seconds kQuestionInterval{1};
// Of the time, at most one part in so many goes into asking.
constexpr int kQuestionShare = 10;

std::optional<double> percentile(std::vector<double>& values, double share) {
  if (values.empty()) return std::nullopt;
  const auto rank = static_cast<int64_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + rank, values.end());
  return values[static_cast<size_t>(rank)];
}

int64_t read(const std::atomic<int64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

}  // namespace

LoadMonitor::LoadMonitor(const MonitoredLoad& load)
    : load_(load), next_question_(load.zero + kQuestionInterval) {
  for (const std::unique_ptr<LoadThread>& thread : load_.threads) {
    const LoadCounters& counters = thread->counters();
    num_sent_before_ += read(counters.num_sent);
    num_completed_before_ += read(counters.num_completed);
    num_failed_before_ += read(counters.num_failed);
    num_unfinished_before_ += read(counters.num_unfinished);
    num_tokens_before_ += read(counters.num_output_tokens);
  }
}

LoadMonitor::~LoadMonitor() = default;

Result<void> LoadMonitor::start() {
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  } catch (const std::system_error& error) {
    return Error{ErrorCode::kInternal, fmt::format("cannot start a thread: {}", error.what())};
  }
  return {};
}

std::vector<RequestRecord> LoadMonitor::finish() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  gather();
  return std::move(records_);
}

void LoadMonitor::run(const std::stop_token& stop) {
  ::pthread_setname_np(::pthread_self(), "load-watch");
  std::mutex mutex;
  std::condition_variable_any never;
  while (!stop.stop_requested()) {
    std::unique_lock lock(mutex);
    never.wait_for(lock, stop, kInterval, [] { return false; });
    gather();
    if (load_.options.on_progress) show_progress();
    if (load_.options.is_precise && !stop.stop_requested()) ask_precise();
  }
}

void LoadMonitor::gather() {
  for (const std::unique_ptr<LoadThread>& thread : load_.threads) thread->take_records(records_);
}

void LoadMonitor::show_progress() {
  LoadProgress progress;
  progress.elapsed = Clock::now() - load_.zero;
  ttft_ms_.clear();
  itl_ms_.clear();
  int64_t num_ended = -num_unfinished_before_;
  progress.num_sent = -num_sent_before_;
  progress.num_completed = -num_completed_before_;
  progress.num_failed = -num_failed_before_;
  progress.num_output_tokens = -num_tokens_before_;
  for (const std::unique_ptr<LoadThread>& thread : load_.threads) {
    const LoadCounters& counters = thread->counters();
    num_ended += read(counters.num_unfinished);
    progress.num_completed += read(counters.num_completed);
    progress.num_failed += read(counters.num_failed);
    progress.num_output_tokens += read(counters.num_output_tokens);
    progress.num_sent += read(counters.num_sent);
    thread->live_samples().copy(progress.elapsed - kSampleWindow, ttft_ms_, itl_ms_);
  }
  num_ended += progress.num_completed + progress.num_failed;
  // Each of these was counted at a moment of its own.
  progress.num_in_flight = std::max<int64_t>(0, progress.num_sent - num_ended);
  progress.num_planned = load_.feed.num_requests();
  progress.ttft_p50_ms = percentile(ttft_ms_, 0.5);
  progress.ttft_p99_ms = percentile(ttft_ms_, 0.99);
  progress.itl_p50_ms = percentile(itl_ms_, 0.5);
  progress.itl_p99_ms = percentile(itl_ms_, 0.99);
  load_.options.on_progress(progress);
}

void LoadMonitor::ask_precise() {
  const TimePoint start = Clock::now();
  if (start < next_question_ || records_.empty()) return;
  if (load_.options.is_precise(records_)) load_.control.end(StopReason::kPrecise);
  const TimePoint end = Clock::now();
  next_question_ = end + std::max<Duration>(kQuestionInterval, kQuestionShare * (end - start));
}

}  // namespace millrace::bench
