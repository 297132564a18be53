#include "http/connection.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <utility>

#include "base/prefetch.h"

namespace millrace::http {
namespace {

using boost::asio::posix::descriptor_base;
using boost::system::error_code;

// Pipelined requests wait here while one is answered; beyond it the socket's buffer holds them.
constexpr size_t kBacklogBytesMax = size_t{64} << 10;
// Reads of one event, so that one fast sender leaves room for the others.
constexpr int kReadsPerEvent = 4;
// A refused request's bytes are discarded this far, then the peer's problem is its own.
constexpr uint64_t kDiscardBytesMax = uint64_t{16} << 20;
// How often a connection that cannot take more input is asked whether its peer still lives.
constexpr std::chrono::milliseconds kProbeInterval{500};

}  // namespace

Connection::Connection(IoThread& thread, Accepted accepted)
    : thread_(thread),
      deadline_{.owner = this},
      remote_address_(std::move(accepted.remote_address)),
      slot_(std::move(accepted.slot)),
      is_surplus_(accepted.is_surplus),
      socket_(thread.io()),
      parser_(thread.service().limits, thread.service().bodies.get()) {
  const int fd = accepted.socket.get();
  transport_ = accepted.is_tls ? thread.service().tls->accept(fd) : make_plain_transport(fd);
  error_code error;
  socket_.assign(fd, error);
  // Without an error the socket is the descriptor's; with one it closes here.
  if (!error) static_cast<void>(accepted.socket.release());
}

// Every event goes through here: what an exception leaves half done is one connection's trouble.
template <class Event>
void Connection::run(const Event& event) {
  if (state_ == State::kClosed) return;
  try {
    event();
  } catch (const std::exception& exception) {
    thread_.service().log_line(std::string("a connection failed: ") + exception.what());
    close();
  }
}

void Connection::start() {
  if (!socket_.is_open() || transport_ == nullptr) return close();
  run([&] { settle(); });
}

void Connection::on_channel_ready() {
  run([&] {
    take_answer();
    settle();
  });
}

void Connection::prefetch(size_t step) const {
  if (step == 0) return prefetch_range(this, &deadline_);
  if (step == 1) millrace::prefetch(transport_.get(), kCacheLineBytes);
}

void Connection::close() {
  if (state_ == State::kClosed) return;
  state_ = State::kClosed;
  const std::shared_ptr<Connection> self = shared_from_this();
  if (channel_) {
    thread_.counters().add(Counters::kClientsGone);
    if (is_streaming_) thread_.counters().subtract(Counters::kStreamsOpen);
    std::exchange(channel_, nullptr)->detach();
  }
  if (transport_) transport_->end_writing();
  error_code error;
  socket_.close(error);
  backlog_ = {};
  out_ = {};
  large_body_ = {};
  thread_.remove(*this);
}

void Connection::drain() {
  if (state_ != State::kReading) return;
  if (!parser_.has_started() && backlog_.empty() && num_bytes_unsent() == 0) close();
}

// A slow reader's last bytes are dropped with the connection: the kernel must not keep them either.
void Connection::cut() {
  const linger no_time = {.l_onoff = 1, .l_linger = 0};
  static_cast<void>(
      ::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_LINGER, &no_time, sizeof no_time)
  );
  thread_.counters().add(Counters::kStreamsCut);
  close();
}

void Connection::arm_read() {
  if (is_read_armed_ || !wants_input()) return;
  is_read_armed_ = true;
  auto handler = [self = shared_from_this()](const error_code& error) {
    self->is_read_armed_ = false;
    if (!error) self->run([&] { self->on_readable(); });
  };
  if (std::exchange(was_input_paused_, false) && transport_->is_buffering()) {
    boost::asio::post(thread_.io(), [handler = std::move(handler)] { handler({}); });
  } else {
    socket_.async_wait(descriptor_base::wait_read, std::move(handler));
  }
}

void Connection::arm_write() {
  if (is_write_armed_) return;
  is_write_armed_ = true;
  socket_.async_wait(
      descriptor_base::wait_write,
      [self = shared_from_this()](const error_code& error) {
        self->is_write_armed_ = false;
        // A TLS handshake may have waited for this in a read.
        const bool may_read_wait = self->transport_->is_buffering();
        if (!error) self->run([&] { may_read_wait ? self->on_readable() : self->settle(); });
      }
  );
}

void Connection::on_readable() {
  is_write_waiting_for_read_ = false;
  const std::span<char> buffer = thread_.read_buffer();
  const bool is_buffering = transport_->is_buffering();
  for (int i = 0; wants_input() && (is_buffering || i < kReadsPerEvent); ++i) {
    const IoResult result = transport_->read(buffer);
    if (result.status == IoStatus::kWantRead) break;
    if (result.status == IoStatus::kWantWrite) {
      arm_write();
      break;
    }
    if (result.status == IoStatus::kEnd) {
      on_end_of_input();
      break;
    }
    if (result.status == IoStatus::kFailed) return close();
    thread_.counters().add(Counters::kBytesReceived, result.num_bytes);
    num_bytes_in_ += result.num_bytes;
    take_bytes(std::string_view(buffer.data(), result.num_bytes));
    // A short read emptied the socket; the reactor says when there is more.
    if (!is_buffering && result.num_bytes < buffer.size()) break;
  }
  settle();
}

void Connection::on_end_of_input() {
  // Half-closing clients are not served: while an answer is made, the end of their input cannot be
  // told from their end (docs of Exchange::on_client_gone). Answers made already still go out.
  if (state_ == State::kReading && num_bytes_unsent() > 0) {
    state_ = State::kFlushing;
  } else {
    close();
  }
}

void Connection::settle() {
  while (state_ != State::kClosed) {
    write_output();
    if (state_ != State::kReading || backlog_.empty() || is_output_paused()) break;
    const std::string bytes = std::exchange(backlog_, {});
    const size_t num_used = process(bytes);
    backlog_.assign(bytes, num_used);
  }
  if (state_ == State::kClosed) return;
  if (channel_) channel_->set_num_bytes_unsent(num_bytes_unsent());
  if (!wants_input()) was_input_paused_ = true;
  arm_read();
  update_deadline();
}

bool Connection::wants_input() const {
  switch (state_) {
    case State::kReading:
      return backlog_.empty() && !is_output_paused();
    case State::kAnswering:
      return backlog_.size() < kBacklogBytesMax;
    case State::kLingering:
      return true;
    case State::kFlushing:
    case State::kClosed:
      return false;
  }
  return false;
}

void Connection::take_bytes(std::string_view bytes) {
  if (state_ == State::kLingering) {
    num_bytes_discarded_ += bytes.size();
    if (num_bytes_discarded_ > kDiscardBytesMax) close();
  } else if (state_ == State::kReading && backlog_.empty()) {
    const size_t num_used = process(bytes);
    if (state_ == State::kReading || state_ == State::kAnswering) {
      backlog_.assign(bytes.substr(num_used));
    }
  } else {
    backlog_.append(bytes);
  }
}

size_t Connection::process(std::string_view bytes) {
  size_t num_used = 0;
  while (state_ == State::kReading && num_used < bytes.size() && !is_output_paused()) {
    num_used += parser_.feed(bytes.substr(num_used));
    advance_parser(num_used < bytes.size());
  }
  return num_used;
}

void Connection::advance_parser(bool has_more_bytes) {
  if (parser_.state() == ParserState::kHeadComplete) begin_body(has_more_bytes);
  if (state_ != State::kReading) return;
  if (parser_.state() == ParserState::kRefused) {
    refuse(parser_.refusal());
  } else if (parser_.state() == ParserState::kComplete) {
    dispatch();
  }
}

// How the next answer must look, from the request's head.
void Connection::adopt_request_terms() {
  Request& request = parser_.request();
  if (request.id.empty()) request.id = thread_.next_request_id();
  request.remote_address = remote_address_;
  request_id_ = request.id;
  cors_headers_ = thread_.service().cors.headers_for(request);
  is_head_request_ = request.method() == "HEAD";
  is_http_1_0_ = request.head.is_http_1_0();
  is_keep_alive_ = request.head.is_keep_alive() && !is_surplus_;
}

void Connection::begin_body(bool has_more_bytes) {
  adopt_request_terms();
  Request& request = parser_.request();
  const RequestHead& head = request.head;
  auto admission = thread_.service().admit(request, is_surplus_);
  route_ = nullptr;
  if (auto* response = std::get_if<Response>(&admission)) {
    // A short body is read, so that the connection can stay; a long one is not worth it.
    const bool is_short =
        head.framing() == BodyFraming::kNone ||
        (head.framing() == BodyFraming::kLength && !head.expects_continue() &&
         head.coding() == ContentCoding::kIdentity && head.content_length() <= kBacklogBytesMax);
    if (!is_short) {
      is_keep_alive_ = false;
      has_unread_input_ = true;
      return answer_without_handler(std::move(*response));
    }
    early_response_ = std::move(*response);
  } else {
    route_ = *std::get_if<const Route*>(&admission);
  }
  const bool expects_continue = head.expects_continue();
  parser_.read_body();
  if (parser_.state() == ParserState::kBody && expects_continue && !has_more_bytes) {
    output().append("HTTP/1.1 100 Continue\r\n\r\n");
  }
}

void Connection::dispatch() {
  Request request = parser_.take();
  if (early_response_) {
    return answer_without_handler(*std::exchange(early_response_, std::nullopt));
  }
  state_ = State::kAnswering;
  is_streaming_ = false;
  channel_ = std::make_shared<ResponseChannel>(
      thread_.mailbox(), *this, thread_.service().limits.stream_buffer_bytes_max
  );
  try {
    route_->handler(std::make_shared<Exchange>(channel_, std::move(request)));
  } catch (const std::exception& exception) {
    thread_.service().log_line(std::string("a handler threw: ") + exception.what());
    channel_->abandon();
  } catch (...) {
    thread_.service().log_line("a handler threw");
    channel_->abandon();
  }
  take_answer();
}

bool Connection::is_peer_gone() {
  pollfd entry = {.fd = socket_.native_handle(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&entry, 1, 0) > 0 && (entry.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

Connection::Wait Connection::current_wait() const {
  using Kind = Wait::Kind;
  const uint64_t step = thread_.service().limits.progress_bytes_min;
  if (state_ == State::kLingering) return {.kind = Kind::kLinger};
  if (num_bytes_unsent() > 0) return {.kind = Kind::kWrite, .progress = num_bytes_out_ / step};
  if (state_ == State::kAnswering) {
    // Each probe is a new one.
    return {.kind = wants_input() ? Kind::kNone : Kind::kProbe, .progress = num_bytes_in_};
  }
  if (parser_.state() == ParserState::kBody) {
    return {.kind = Kind::kBody, .num_requests = num_requests_, .progress = num_bytes_in_ / step};
  }
  // A new connection has as long for its first byte as for the whole head.
  const bool is_head = parser_.has_started() || num_requests_ == 0;
  return {.kind = is_head ? Kind::kHead : Kind::kIdle, .num_requests = num_requests_};
}

std::chrono::milliseconds Connection::timeout_of(Wait::Kind kind) const {
  const HttpLimits& limits = thread_.service().limits;
  switch (kind) {
    case Wait::Kind::kNone:
      break;
    case Wait::Kind::kIdle:
      return limits.keep_alive_timeout;
    case Wait::Kind::kHead:
      return is_surplus_ ? std::min(limits.header_timeout, limits.surplus_header_timeout)
                         : limits.header_timeout;
    case Wait::Kind::kBody:
      return limits.body_idle_timeout;
    case Wait::Kind::kWrite:
      return limits.write_timeout;
    case Wait::Kind::kLinger:
      return limits.linger_timeout;
    case Wait::Kind::kProbe:
      return kProbeInterval;
  }
  return std::chrono::milliseconds::max();
}

void Connection::update_deadline() {
  const Wait wait = current_wait();
  if (wait == wait_) return;
  wait_ = wait;
  if (wait.kind == Wait::Kind::kNone) {
    thread_.clear_deadline(deadline_);
  } else {
    thread_.set_deadline(deadline_, Clock::now() + timeout_of(wait.kind));
  }
}

void Connection::on_deadline() {
  run([&] { expire(); });
}

void Connection::expire() {
  const Wait wait = std::exchange(wait_, {});
  switch (wait.kind) {
    case Wait::Kind::kNone:
      break;
    case Wait::Kind::kIdle:
    case Wait::Kind::kLinger:
      return close();
    case Wait::Kind::kHead:
    case Wait::Kind::kBody:
      if (!parser_.has_started()) return close();
      thread_.counters().add(Counters::kTimeouts);
      refuse(refuse_slow());
      break;
    case Wait::Kind::kWrite:
      thread_.counters().add(Counters::kTimeouts);
      return cut();
    case Wait::Kind::kProbe:
      if (is_peer_gone()) return close();
      break;
  }
  settle();
}

}  // namespace millrace::http
