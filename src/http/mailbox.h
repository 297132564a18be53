// How other threads tell an I/O thread which answers have news. Many writers, one reader; a wake-up
// only when the box was empty, so a burst of events costs one.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace millrace::http {

class ResponseChannel;

// Thread-safe. Shared by the I/O thread and every channel of it: handlers may answer after the
// server is gone.
class Mailbox {
 public:
  // `wake` is called from any thread, must not block, and is called once between two take_all().
  explicit Mailbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  void push(std::shared_ptr<ResponseChannel> channel) {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return;
    ready_.push_back(std::move(channel));
    if (ready_.size() == 1) wake_();
  }

  // As push(), but wakes nobody. True: the caller owes the reader a wake().
  [[nodiscard]] bool push_silently(std::shared_ptr<ResponseChannel> channel) {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return false;
    ready_.push_back(std::move(channel));
    return ready_.size() == 1;
  }
  void wake() {
    const std::lock_guard lock(mutex_);
    if (!is_closed_) wake_();
  }

  // Swaps what is ready into `out`, which comes empty and whose memory is used again.
  void take_all(std::vector<std::shared_ptr<ResponseChannel>>& out) {
    const std::lock_guard lock(mutex_);
    out.swap(ready_);
  }

  // Nothing is taken any more, and `wake` is not called any more.
  void close() {
    std::vector<std::shared_ptr<ResponseChannel>> dropped;
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    dropped.swap(ready_);
  }

 private:
  std::mutex mutex_;
  std::function<void()> wake_;
  std::vector<std::shared_ptr<ResponseChannel>> ready_;
  bool is_closed_ = false;
};

}  // namespace millrace::http
