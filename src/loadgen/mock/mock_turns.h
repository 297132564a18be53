// Whose turn it is where the mock server answers only so many at once: first come, first served.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

namespace millrace::bench {

class MockThread;

// A connection of a thread. `turn` tells the users of one slot apart.
struct ConnectionId {
  uint32_t slot = 0;
  uint32_t turn = 0;
  friend bool operator==(const ConnectionId&, const ConnectionId&) = default;
};

// Thread-safe.
class MockTurns {
 public:
  struct Place {
    MockThread* thread = nullptr;
    ConnectionId connection;
    friend bool operator==(const Place&, const Place&) = default;
  };

  explicit MockTurns(std::optional<int64_t> num_running_max) : num_running_max_(num_running_max) {}

  // Whether its turn is now; else somebody's leave() gives it.
  bool enter(const Place& place) {
    const std::lock_guard lock(mutex_);
    if (num_running_max_ && num_running_ >= *num_running_max_) {
      waiting_.push_back(place);
      return false;
    }
    ++num_running_;
    return true;
  }

  // One is done; gives whose turn it is now, who must be told.
  std::optional<Place> leave() {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) {
      --num_running_;
      return std::nullopt;
    }
    const Place next = waiting_.front();
    waiting_.pop_front();
    return next;
  }

  // Whether it waited, and does no more; false: its turn has come or is on its way.
  [[nodiscard]] bool forget(const Place& place) {
    const std::lock_guard lock(mutex_);
    return std::erase(waiting_, place) > 0;
  }

  struct Counts {
    int64_t num_running = 0;
    int64_t num_waiting = 0;
  };
  Counts counts() const {
    const std::lock_guard lock(mutex_);
    return {num_running_, static_cast<int64_t>(waiting_.size())};
  }

 private:
  const std::optional<int64_t> num_running_max_;
  mutable std::mutex mutex_;  // guards what follows
  int64_t num_running_ = 0;
  std::deque<Place> waiting_;
};

}  // namespace millrace::bench
