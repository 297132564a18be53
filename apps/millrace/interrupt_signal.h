// Ctrl-C, and other signals that end a process, as a call instead.
#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"
#include "http/unique_fd.h"

namespace millrace {

// Owns its signals while it lives. One object in a process; made before any other thread, since
// threads pass on to those they start that the signals are not for them.
class InterruptSignal {
 public:
  // `handler`: as set_handler(), for those signals too that came before and were held back.
  static Result<std::unique_ptr<InterruptSignal>> make(
      const std::vector<int>& signals = {SIGINT}, std::function<void()> handler = {}
  );
  ~InterruptSignal();
  InterruptSignal(const InterruptSignal&) = delete;
  InterruptSignal& operator=(const InterruptSignal&) = delete;

  // Calls `handler` on a thread of its own for each signal from now on; returns once no call to the
  // one before is under way. Empty, and at first: the process ends, as processes do.
  void set_handler(std::function<void()> handler);

 private:
  InterruptSignal(http::UniqueFd signals, http::UniqueFd end, std::function<void()> handler);
  void watch();

  http::UniqueFd signals_;
  http::UniqueFd end_;  // an event: the object's end
  std::mutex mutex_;    // guards handler_
  std::function<void()> handler_;
  std::jthread thread_;
};

}  // namespace millrace
