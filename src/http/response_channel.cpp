#include "http/response_channel.h"

#include <algorithm>
#include <utility>

#include "base/prefetch.h"
#include "http/connection.h"

namespace millrace::http {
namespace {

// An idle stream keeps at most this much of a buffer that was once larger.
constexpr size_t kIdleCapacityMax = 4096;

}  // namespace

std::shared_ptr<ResponseChannel> ResponseChannel::queue_locked() {
  if (is_queued_ || is_client_gone()) return nullptr;
  is_queued_ = true;
  return shared_from_this();
}

// Outside the lock: the mailbox has its own, and the two are never held together.
void ResponseChannel::notify(std::shared_ptr<ResponseChannel> queued) {
  if (queued) mailbox_->push(std::move(queued));
}

bool ResponseChannel::respond(Response response) {
  Callbacks dropped;
  std::shared_ptr<ResponseChannel> queued;
  {
    const std::lock_guard lock(mutex_);
    if (stage_ != Stage::kWaiting || is_client_gone()) return false;
    stage_ = Stage::kFinished;
    response_ = std::move(response);
    dropped = std::exchange(callbacks_, {});
    queued = queue_locked();
  }
  notify(std::move(queued));
  return true;
}

bool ResponseChannel::begin_stream(Response head) {
  std::shared_ptr<ResponseChannel> queued;
  {
    const std::lock_guard lock(mutex_);
    if (stage_ != Stage::kWaiting || is_client_gone()) return false;
    stage_ = Stage::kStreaming;
    is_stream_ = true;
    pending_ = std::exchange(head.body, {});
    response_ = std::move(head);
    queued = queue_locked();
  }
  notify(std::move(queued));
  return true;
}

bool ResponseChannel::write(std::span<const std::string_view> pieces) {
  size_t size = 0;
  for (const std::string_view piece : pieces) size += piece.size();
  std::shared_ptr<ResponseChannel> queued;
  bool is_written = false;
  {
    const std::lock_guard lock(mutex_);
    if (stage_ != Stage::kStreaming || is_client_gone()) return false;
    std::string& buffer = direct_ != nullptr ? *direct_ : pending_;
    const size_t num_bytes_held = buffer.size() + num_bytes_unsent_.load(std::memory_order_relaxed);
    // One large event says nothing of how the client reads, nor does what comes right behind it.
    largest_write_bytes_ = std::max(largest_write_bytes_, size);
    const size_t num_bytes_max = std::max(buffer_bytes_max_, 2 * largest_write_bytes_);
    is_written = num_bytes_held + size <= num_bytes_max;
    if (is_written) {
      for (const std::string_view piece : pieces) buffer.append(piece);
    } else {
      stage_ = Stage::kOverflowed;
    }
    queued = queue_locked();
  }
  notify(std::move(queued));
  return is_written;
}

bool ResponseChannel::finish() {
  Callbacks dropped;
  std::shared_ptr<ResponseChannel> queued;
  {
    const std::lock_guard lock(mutex_);
    if (stage_ != Stage::kStreaming || is_client_gone()) return false;
    stage_ = Stage::kFinished;
    dropped = std::exchange(callbacks_, {});
    queued = queue_locked();
  }
  notify(std::move(queued));
  return true;
}

void ResponseChannel::abandon() {
  Callbacks dropped;
  std::shared_ptr<ResponseChannel> queued;
  {
    const std::lock_guard lock(mutex_);
    dropped = std::exchange(callbacks_, {});
    if (stage_ != Stage::kWaiting && stage_ != Stage::kStreaming) return;
    stage_ = Stage::kAbandoned;
    queued = queue_locked();
  }
  notify(std::move(queued));
}

void ResponseChannel::on_client_gone(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (stage_ == Stage::kFinished || stage_ == Stage::kAbandoned) return;
    if (!is_client_gone()) {
      // The earlier one ends its life outside the lock.
      callbacks_.on_gone.swap(callback);
      return;
    }
  }
  callback();
}

void ResponseChannel::listen(std::shared_ptr<WakeListener> listener) {
  const std::lock_guard lock(mutex_);
  if (stage_ == Stage::kWaiting && !is_client_gone()) callbacks_.listener = std::move(listener);
}

void ResponseChannel::wake() {
  std::shared_ptr<ResponseChannel> queued;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_awake_, true)) return;
    queued = queue_locked();
  }
  notify(std::move(queued));
}

std::shared_ptr<Mailbox> ResponseChannel::wake_later() {
  std::shared_ptr<ResponseChannel> queued;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(is_awake_, true)) return nullptr;
    queued = queue_locked();
  }
  const bool owes_wake = queued && mailbox_->push_silently(std::move(queued));
  return owes_wake ? mailbox_ : nullptr;
}

void ResponseChannel::prefetch(size_t step) {
  if (step == 0) return prefetch_object(*this);
  if (connection_ == nullptr) return;
  connection_->prefetch(step - 1);
  const std::lock_guard lock(mutex_);
  if (callbacks_.listener == nullptr) return;
  if (step == 1) return millrace::prefetch(callbacks_.listener.get(), kCacheLineBytes);
  callbacks_.listener->prefetch(step - 2);
}

ResponseChannel::Taken ResponseChannel::take(std::string& stream_bytes) {
  tell_listener(stream_bytes);
  Taken taken;
  std::shared_ptr<ResponseChannel> queued;
  {
    const std::lock_guard lock(mutex_);
    is_queued_ = false;
    // Woken while the listener was told: it is told again, after those of the others.
    if (is_awake_ && callbacks_.listener) queued = queue_locked();
    taken.response = std::exchange(response_, std::nullopt);
    taken.is_stream = is_stream_;
    taken.progress = progress_locked();
    // The connection's from here: they count as unsent until it says what the socket took. Between
    // the two, a client that reads nothing had no bound.
    num_bytes_unsent_.fetch_add(stream_bytes.size(), std::memory_order_relaxed);
    direct_ = nullptr;
  }
  notify(std::move(queued));
  return taken;
}

// What the listener writes needs no place in the mailbox: take() goes on.
void ResponseChannel::tell_listener(std::string& stream_bytes) {
  std::shared_ptr<WakeListener> listener;
  {
    const std::lock_guard lock(mutex_);
    stream_bytes.assign(pending_);
    pending_.clear();
    if (pending_.capacity() > kIdleCapacityMax) pending_.shrink_to_fit();
    direct_ = &stream_bytes;
    if (std::exchange(is_awake_, false)) listener = callbacks_.listener;
  }
  if (listener) listener->on_wake();
}

ResponseChannel::Progress ResponseChannel::progress_locked() const {
  switch (stage_) {
    case Stage::kFinished:
      return Progress::kFinished;
    case Stage::kAbandoned:
      return Progress::kAbandoned;
    case Stage::kOverflowed:
      return Progress::kOverflowed;
    case Stage::kWaiting:
    case Stage::kStreaming:
      break;
  }
  return Progress::kOpen;
}

void ResponseChannel::detach() {
  connection_ = nullptr;
  Callbacks dropped;
  {
    const std::lock_guard lock(mutex_);
    is_gone_.store(true, std::memory_order_release);
    direct_ = nullptr;
    pending_ = {};
    response_.reset();
    dropped = std::exchange(callbacks_, {});
  }
  if (!dropped.on_gone) return;
  try {
    dropped.on_gone();
  } catch (...) {
    // It was the last to hear of this client; there is nobody left to tell.
  }
}

}  // namespace millrace::http
