// One client of the mock server: reads requests, makes their answers, writes what is due.
// Owned by its thread, which alone calls it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "http/request_parser.h"
#include "http/response.h"
#include "http/unique_fd.h"
#include "loadgen/mock/mock_answer.h"
#include "loadgen/mock/mock_turns.h"

namespace millrace::bench {

class MockThread;

class MockConnection {
 public:
  MockConnection(MockThread& thread, http::UniqueFd socket, ConnectionId id);
  // Gives back its turn, if it has one.
  ~MockConnection();
  MockConnection(const MockConnection&) = delete;
  MockConnection& operator=(const MockConnection&) = delete;

  int fd() const { return socket_.get(); }

  // Each returns false when the connection has ended and is to be destroyed.
  [[nodiscard]] bool on_events(uint32_t events);  // epoll's
  [[nodiscard]] bool on_due(TimePoint when);      // as given to set_due()
  [[nodiscard]] bool on_turn();                   // of MockTurns

 private:
  enum class State { kReading, kWaiting, kAnswering };

  bool receive(bool until_end);
  void take_bytes(std::string_view bytes);
  size_t process(std::string_view bytes);
  void advance_parser();
  void dispatch(const http::Request& request);
  void start_answer(MockApi api, const http::Request& request);
  void respond(const http::Response& response);
  void pump();
  void set_due(TimePoint due);
  void append_stream(TimePoint now);
  void append_whole(TimePoint now);
  void end_answer();
  bool flush();
  bool settle();
  size_t num_unsent() const { return out_.size() - num_out_sent_; }

  MockThread& thread_;
  http::UniqueFd socket_;
  const ConnectionId id_;
  http::RequestParser parser_;
  State state_ = State::kReading;
  std::string in_;  // received and not yet parsed: pipelined requests
  bool is_input_paused_ = false;
  std::string out_;
  size_t num_out_sent_ = 0;
  bool is_closing_ = false;  // once all is sent
  bool is_keep_alive_ = true;

  // Of the answer that is made.
  std::optional<MockAnswer> answer_;
  bool has_head_ = false;
  TimePoint turn_at_;  // its times count from here
  // What set_due() was told last: earlier entries that were overtaken still come up.
  std::optional<TimePoint> due_at_;
  MockTimes times_;
};

}  // namespace millrace::bench
