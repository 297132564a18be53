// One thread of the mock server: its connections, and when each has something due. The thread that
// knows the time also writes, so that nothing lies between a token's time and its bytes; that is
// why this is not http::HttpServer, whose handlers have no timers on the I/O threads.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "http/limits.h"
#include "http/unique_fd.h"
#include "loadgen/mock/mock_connection.h"
#include "loadgen/mock/mock_state.h"

namespace millrace::bench {

class MockThread {
 public:
  // `state` and `peers` (all threads, this one among them) outlive the thread. The error says what
  // the machine has too few of.
  static Result<std::unique_ptr<MockThread>> make(
      MockState& state, std::span<const std::unique_ptr<MockThread>> peers
  );
  // REQUIRES: stop() was called if start() was.
  ~MockThread();

  // From any thread. `listener`: accepts for all peers in turn.
  void start(size_t index, std::optional<http::UniqueFd> listener);
  void adopt(http::UniqueFd socket);
  void admit(ConnectionId connection);  // its turn has come
  void stop();                          // closes everything; the thread ends
  void join();

  // What follows is for the connections, on this thread.
  MockState& state() { return state_; }
  const http::HttpLimits& limits() const { return limits_; }
  std::span<char> read_buffer() { return *read_buffer_; }
  void set_due(ConnectionId connection, TimePoint when) { due_.push({when, connection}); }
  void leave_turn();
  // Stops all peers.
  void die();

 private:
  struct Due {
    TimePoint when;
    ConnectionId connection;
    friend bool operator>(const Due& a, const Due& b) { return a.when > b.when; }
  };
  struct Inbox {
    std::vector<http::UniqueFd> sockets;
    std::vector<ConnectionId> admitted;
  };
  struct Slot {
    uint32_t turn = 0;
    std::unique_ptr<MockConnection> connection;
  };
  using ReadBuffer = std::array<char, size_t{64} << 10>;

  MockThread(MockState& state, std::span<const std::unique_ptr<MockThread>> peers)
      : state_(state), peers_(peers), read_buffer_(std::make_unique<ReadBuffer>()) {}

  void run(size_t index);
  std::optional<Duration> time_to_sleep() const;
  void wait();
  void watch_listener(bool is_watched);
  void accept_all();
  void open(http::UniqueFd socket);
  void close(ConnectionId id);
  MockConnection* find(ConnectionId id);
  void take_inbox();
  void pass_turns(std::vector<ConnectionId> admitted);
  void run_due();
  void wake();

  MockState& state_;
  const std::span<const std::unique_ptr<MockThread>> peers_;
  const http::HttpLimits limits_;
  http::UniqueFd epoll_;
  http::UniqueFd wake_event_;
  std::optional<http::UniqueFd> listener_;
  std::optional<TimePoint> accept_again_at_;  // descriptors had run out
  size_t next_peer_ = 0;
  std::unique_ptr<ReadBuffer> read_buffer_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_slots_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::vector<ConnectionId> admitted_;  // by this thread itself

  std::atomic<bool> is_stopping_ = false;
  std::mutex inbox_mutex_;  // guards what follows
  Inbox inbox_;

  std::thread thread_;
};

}  // namespace millrace::bench
