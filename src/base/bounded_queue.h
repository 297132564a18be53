// How threads hand values to one another: first in, first out, never more than `capacity` of them.
// Every function may be called by any thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/clock.h"

namespace millrace {

enum class PushResult { kPushed, kFull, kClosed };

template <class T>
class BoundedQueue {
 public:
  // REQUIRES: capacity > 0. Memory is taken as values arrive, not ahead.
  explicit BoundedQueue(size_t capacity) : capacity_(capacity) {
    CHECK(capacity > 0, "a queue without room never passes anything on");
  }
  BoundedQueue(const BoundedQueue&) = delete;
  BoundedQueue& operator=(const BoundedQueue&) = delete;

  // Sleeps while the queue is full. kClosed: the value was dropped.
  PushResult push(T value) {
    PushResult result = PushResult::kPushed;
    {
      std::unique_lock lock(mutex_);
      room_.wait(lock, [&] { return is_closed_ || values_.size() < capacity_; });
      result = push_locked(std::move(value));
    }
    wake_taker();
    return result;
  }

  // Never sleeps. kFull or kClosed: the value was dropped.
  PushResult try_push(T value) {
    const PushResult result = try_push_silently(std::move(value));
    wake_taker();
    return result;
  }

  // The same, but who sleeps in pop() sleeps on: the caller calls wake_taker() soon, once it has
  // let go of locks that the taker wants. A thread that is woken to wait for a lock costs two
  // switches more.
  PushResult try_push_silently(T value) {
    const std::lock_guard lock(mutex_);
    return push_locked(std::move(value));
  }
  void wake_taker() { arrival_.notify_one(); }

  // Sleeps while the queue is empty. nullopt: closed, and everything pushed before has been taken.
  std::optional<T> pop() {
    std::unique_lock lock(mutex_);
    arrival_.wait(lock, [&] { return is_closed_ || !values_.empty(); });
    return pop_locked();
  }

  // Sleeps until `deadline` at most. nullopt: nothing came, or closed as for pop().
  std::optional<T> pop_until(TimePoint deadline) {
    std::unique_lock lock(mutex_);
    arrival_.wait_until(lock, deadline, [&] { return is_closed_ || !values_.empty(); });
    return pop_locked();
  }

  // Never sleeps. nullopt: nothing there now.
  std::optional<T> try_pop() {
    const std::lock_guard lock(mutex_);
    return pop_locked();
  }

  // Refuses further values and wakes every sleeper; what is inside can still be taken. Idempotent.
  void close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    room_.notify_all();
    arrival_.notify_all();
  }

  size_t size() const {
    const std::lock_guard lock(mutex_);
    return values_.size();
  }
  size_t capacity() const { return capacity_; }

 private:
  PushResult push_locked(T value) {
    if (is_closed_) return PushResult::kClosed;
    if (values_.size() >= capacity_) return PushResult::kFull;
    values_.push_back(std::move(value));
    return PushResult::kPushed;
  }

  std::optional<T> pop_locked() {
    std::optional<T> value;
    if (values_.empty()) return value;
    value.emplace(std::move(values_.front()));
    values_.pop_front();
    room_.notify_one();
    return value;
  }

  const size_t capacity_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable room_;
  std::condition_variable arrival_;
  std::deque<T> values_;
  bool is_closed_ = false;
};

}  // namespace millrace
