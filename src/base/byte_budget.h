// A bound on the bytes that many holders have together. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <utility>

namespace millrace {

class ByteBudget {
 public:
  explicit ByteBudget(size_t num_bytes_max) : num_bytes_max_(num_bytes_max) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // False: there are not so many left, and nothing was taken.
  [[nodiscard]] bool try_take(size_t num_bytes) {
    size_t taken = num_bytes_taken_.load(std::memory_order_relaxed);
    do {
      if (num_bytes > num_bytes_max_ - taken) return false;
    } while (!num_bytes_taken_.compare_exchange_weak(taken, taken + num_bytes));
    return true;
  }
  // REQUIRES: so many were taken.
  void give_back(size_t num_bytes) { num_bytes_taken_ -= num_bytes; }

 private:
  const size_t num_bytes_max_;
  std::atomic<size_t> num_bytes_taken_ = 0;  // at most num_bytes_max_
};

// What one holder has of a budget, given back with it.
class BytesHeld {
 public:
  // Without a budget there is no bound. `budget` outlives this.
  explicit BytesHeld(ByteBudget* budget) : budget_(budget) {}
  BytesHeld(BytesHeld&& other) noexcept
      : budget_(other.budget_), num_bytes_(std::exchange(other.num_bytes_, 0)) {}
  ~BytesHeld() { release(); }

  // Holds `num_bytes` in all, if that is more than before. False: the budget has no more; what was
  // held stays.
  [[nodiscard]] bool grow_to(size_t num_bytes) {
    if (budget_ == nullptr || num_bytes <= num_bytes_) return true;
    if (!budget_->try_take(num_bytes - num_bytes_)) return false;
    num_bytes_ = num_bytes;
    return true;
  }
  void release() {
    if (budget_ != nullptr) budget_->give_back(std::exchange(num_bytes_, 0));
  }

 private:
  ByteBudget* budget_;
  size_t num_bytes_ = 0;
};

}  // namespace millrace
