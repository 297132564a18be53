// Tells when the engine gets stuck, and when it goes on: once each.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "engine/engine.h"

namespace millrace {

struct StallNews {
  bool is_over = false;  // false: it is stuck and may stay so
  Duration age{0};       // how long it has been, or was, stuck; to the watchdog's rhythm
};

// One line: "the engine has not finished a step for 61.5 s".
std::string message_of(const StallNews& news);

// What is news. Used by one thread.
class StallDetector {
 public:
  explicit StallDetector(Duration stall_timeout) : stall_timeout_(stall_timeout) {}

  // nullopt: nothing that was not told before.
  std::optional<StallNews> observe(const EngineStats& stats, TimePoint now);

 private:
  Duration stall_timeout_;
  std::optional<TimePoint> stuck_since_;  // of the stall that was told of
};

class EngineWatchdog {
 public:
  struct Options {
    Duration stall_timeout{0};  // more than 0
    std::function<EngineStats()> read_stats;
    std::function<void(const StallNews&)> on_news;  // on the watchdog's own thread
  };

  // Starts a thread that looks four times in a stall_timeout.
  explicit EngineWatchdog(Options options);
  ~EngineWatchdog();  // no call is under way afterwards
  EngineWatchdog(const EngineWatchdog&) = delete;
  EngineWatchdog& operator=(const EngineWatchdog&) = delete;

 private:
  void run();

  const Options options_;
  std::mutex mutex_;  // guards is_stopping_
  std::condition_variable stop_;
  bool is_stopping_ = false;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace millrace
