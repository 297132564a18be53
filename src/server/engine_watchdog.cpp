#include "server/engine_watchdog.h"

#include <fmt/format.h>
#include <pthread.h>

#include <utility>

#include "base/check.h"
#include "server/health.h"

namespace millrace {

std::string message_of(const StallNews& news) {
  const double seconds = to_seconds(news.age);
  return news.is_over ? fmt::format("the engine goes on after {:.1f} s without a step", seconds)
                      : fmt::format("the engine has not finished a step for {:.1f} s", seconds);
}

std::optional<StallNews> StallDetector::observe(const EngineStats& stats, TimePoint now) {
  const std::optional<TimePoint> since = find_stall(stats, now, stall_timeout_);
  if (since == stuck_since_) return std::nullopt;
  // Another stall right after the one before is told of as it is; that the first is over goes
  // without saying.
  const StallNews news = since ? StallNews{.is_over = false, .age = now - *since}
                               : StallNews{.is_over = true, .age = now - *stuck_since_};
  stuck_since_ = since;
  return news;
}

EngineWatchdog::EngineWatchdog(Options options)
    : options_(std::move(options)), thread_([this] { run(); }) {}

EngineWatchdog::~EngineWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  stop_.notify_all();
  thread_.join();
}

void EngineWatchdog::run() {
  pthread_setname_np(pthread_self(), "watchdog");
  CHECK(options_.stall_timeout > Duration{0}, "everything is a stall");
  StallDetector detector(options_.stall_timeout);
  std::unique_lock lock(mutex_);
  while (!stop_.wait_for(lock, options_.stall_timeout / 4, [this] { return is_stopping_; })) {
    lock.unlock();
    if (const auto news = detector.observe(options_.read_stats(), Clock::now())) {
      options_.on_news(*news);
    }
    lock.lock();
  }
}

}  // namespace millrace
