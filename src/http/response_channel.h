// Where one answer passes from whichever thread makes it to the connection that sends it: a bounded
// buffer of bytes in one direction, "the client is gone" in the other. Shared by the Exchange (the
// handler's end) and the Connection (the I/O thread's end); outlives both safely.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "http/mailbox.h"
#include "http/response.h"

namespace millrace::http {

class Connection;

// Who words an answer on its I/O thread. Shared by the channel until the answer is finished or the
// client gone.
class WakeListener {
 public:
  virtual ~WakeListener() = default;

  // On the I/O thread, soon after wake(): once for any number of wake-ups, and never beside itself.
  // Must not block. What it writes leaves at once.
  virtual void on_wake() = 0;

  // On the I/O thread, some answers before on_wake(): asks memory for what that will read. `step`:
  // 0 to kNumPrefetchSteps - 1, an answer apart; what one step asked for may be read by the next,
  // the listener's first cache line by all. Must neither block nor use the exchange.
  static constexpr size_t kNumPrefetchSteps = 3;
  virtual void prefetch(size_t /*step*/) {}
};

class ResponseChannel : public std::enable_shared_from_this<ResponseChannel> {
 public:
  ResponseChannel(std::shared_ptr<Mailbox> mailbox, Connection& connection, size_t buffer_bytes_max)
      : mailbox_(std::move(mailbox)),
        connection_(&connection),
        buffer_bytes_max_(buffer_bytes_max) {}

  // The handler's end, from any thread. Each returns false, and does nothing, when the client is
  // gone or the answer was given already.

  bool respond(Response response);
  bool begin_stream(Response head);
  // Copies the pieces behind each other into the buffer. What does not fit, since the client is so
  // far behind, cuts the stream. The buffer holds `buffer_bytes_max`, or twice the largest write of
  // this stream where that is more: otherwise one large event would cut whoever is sent the next.
  bool write(std::span<const std::string_view> pieces);
  bool finish();
  // The handler's end is gone. Without an answer this becomes a 500, an unfinished stream is cut.
  void abandon();

  bool is_client_gone() const { return is_gone_.load(std::memory_order_acquire); }
  // Calls `callback` once, on the I/O thread, if the client goes before the answer is finished; at
  // once, on this thread, if it has gone. A later callback replaces an earlier one.
  void on_client_gone(std::function<void()> callback);

  // Has `listener` told on the I/O thread after each wake(), until the answer is finished or the
  // client is gone. Set once, before the first wake().
  void listen(std::shared_ptr<WakeListener> listener);
  void wake();
  // The same, but the I/O thread sleeps on: the mailbox that owes it a wake(), if that is this
  // caller's to do.
  std::shared_ptr<Mailbox> wake_later();

  // The connection's end, on its I/O thread only.

  // Asks memory for what take() and the connection will read. `step`: 0 to kNumPrefetchSteps - 1,
  // an answer apart: this channel, then the connection and the listener, then what those point to.
  static constexpr size_t kNumPrefetchSteps = 2 + WakeListener::kNumPrefetchSteps;
  void prefetch(size_t step);

  enum class Progress { kOpen, kFinished, kAbandoned, kOverflowed };
  struct Taken {
    std::optional<Response> response;  // newly given; a stream's has no body
    bool is_stream = false;
    Progress progress = Progress::kOpen;
  };
  // Tells the listener first, if wake() was called since last time. Sets `stream_bytes` to the
  // streamed bytes that came since last time.
  Taken take(std::string& stream_bytes);

  // How much the connection holds that the socket has not taken: counts against the bound.
  void set_num_bytes_unsent(size_t num_bytes) {
    num_bytes_unsent_.store(num_bytes, std::memory_order_relaxed);
  }

  // The connection will not look again: the client went, or the answer was sent in full.
  void detach();

  // Null after detach().
  Connection* connection() const { return connection_; }

 private:
  // They may own the handler's end, which owns this: finishing and detaching drops them, outside
  // the lock.
  struct Callbacks {
    std::function<void()> on_gone;
    std::shared_ptr<WakeListener> listener;
  };
  enum class Stage { kWaiting, kStreaming, kFinished, kAbandoned, kOverflowed };
  void tell_listener(std::string& stream_bytes);
  std::shared_ptr<ResponseChannel> queue_locked();
  Progress progress_locked() const;
  void notify(std::shared_ptr<ResponseChannel> queued);

  const std::shared_ptr<Mailbox> mailbox_;
  Connection* connection_;  // touched by the I/O thread only
  const size_t buffer_bytes_max_;
  std::atomic<bool> is_gone_ = false;
  std::atomic<size_t> num_bytes_unsent_ = 0;

  std::mutex mutex_;  // guards what follows
  Stage stage_ = Stage::kWaiting;
  std::optional<Response> response_;
  std::string pending_;
  size_t largest_write_bytes_ = 0;
  // Where write() puts its bytes instead, while the listener is told: what it writes needs no
  // memory of this answer's own.
  std::string* direct_ = nullptr;
  bool is_stream_ = false;
  // In the mailbox, or the connection is about to look: at first when the handler has returned.
  bool is_queued_ = true;
  Callbacks callbacks_;
  bool is_awake_ = false;
};

}  // namespace millrace::http
