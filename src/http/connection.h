// One client: reads requests, hands them to their handlers, sends the answers in order. Sees that
// the client is gone at any time, because a read waits even while an answer is made.
// Owned by its I/O thread, which alone calls it.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/io_thread.h"
#include "http/request_parser.h"
#include "http/response.h"
#include "http/response_channel.h"
#include "http/transport.h"

namespace millrace::http {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(IoThread& thread, Accepted accepted);

  void start();
  // The current answer has news.
  void on_channel_ready();
  // Before that: asks memory for what it will read. `step`: 0, then 1; nothing after that.
  void prefetch(size_t step) const;
  void on_deadline();
  // Closes between requests; otherwise this answer is the last.
  void drain();
  // At once. Who works on the current answer learns that the client is gone.
  void close();

  Deadline& deadline() { return deadline_; }

 private:
  enum class State {
    kReading,    // the next request
    kAnswering,  // a handler works; `channel_` is set
    kFlushing,   // what is in the output, then the end
    kLingering,  // wrote all; discards input so that the peer gets to read (RFC 9112, 9.6)
    kClosed,
  };
  // What the deadline is for. It starts anew when any part of this differs.
  struct Wait {
    enum class Kind { kNone, kIdle, kHead, kBody, kWrite, kProbe, kLinger };
    Kind kind = Kind::kNone;
    uint64_t num_requests = 0;
    uint64_t progress = 0;
    friend bool operator==(const Wait&, const Wait&) = default;
  };

  template <class Event>
  void run(const Event& event);

  // Events of the socket.
  void arm_read();
  void arm_write();
  void on_readable();
  void on_end_of_input();
  // The last thing that every event does: write, go on with requests that wait, arm, set deadlines.
  void settle();

  // Input.
  bool wants_input() const;
  void take_bytes(std::string_view bytes);
  size_t process(std::string_view bytes);
  void advance_parser(bool has_more_bytes);
  void begin_body(bool has_more_bytes);
  void adopt_request_terms();
  void dispatch();

  // Output.
  void refuse(const Refusal& refusal);
  void answer_without_handler(Response response);
  void take_answer();
  void append_response(Response response, bool is_stream);
  void append_stream_bytes(std::string_view bytes);
  // What is to be sent. Its memory is lent by the thread until all of it is.
  std::string& output();
  void end_answer();
  void write_output();
  void take_written(size_t num_bytes);
  size_t num_bytes_unsent() const;
  bool is_output_paused() const;
  void on_output_empty();
  void cut();

  // Deadlines.
  Wait current_wait() const;
  void update_deadline();
  std::chrono::milliseconds timeout_of(Wait::Kind kind) const;
  void expire();
  bool is_peer_gone();

  IoThread& thread_;

  // From here on what a stream's every event touches: prefetch().
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<ResponseChannel>
      channel_;  // of the request that is being answered; the handler's
  State state_ = State::kReading;
  ResponseFraming stream_framing_ = ResponseFraming::kChunked;
  bool is_read_armed_ = false;
  bool is_write_armed_ = false;
  bool was_input_paused_ = false;           // bytes may wait inside the transport
  bool is_write_waiting_for_read_ = false;  // TLS wants to read before it can write
  bool is_streaming_ = false;               // the answer
  uint64_t num_bytes_in_ = 0;
  uint64_t num_bytes_out_ = 0;
  std::string out_;  // then large_body_
  size_t num_out_sent_ = 0;
  std::string large_body_;
  size_t num_body_sent_ = 0;
  std::string backlog_;  // received, not yet parsed: pipelined requests
  Wait wait_;
  // To here.

  Deadline deadline_;
  const std::string remote_address_;
  const ConnectionSlot slot_;
  const bool is_surplus_;
  boost::asio::posix::stream_descriptor socket_;
  bool has_unread_input_ = false;  // of a refused request: linger
  uint64_t num_requests_ = 0;
  uint64_t num_bytes_discarded_ = 0;

  RequestParser parser_;
  const Route* route_ = nullptr;
  std::optional<Response> early_response_;  // to be sent when the body has been read

  // Of the request that is being answered.
  std::string request_id_;
  std::vector<Header> cors_headers_;
  bool is_head_request_ = false;
  bool is_http_1_0_ = false;
  bool is_keep_alive_ = true;
};

}  // namespace millrace::http
