#include "loadgen/mock/mock_connection.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/check.h"
#include "loadgen/mock/mock_routes.h"
#include "loadgen/mock/mock_thread.h"

namespace millrace::bench {
namespace {

// Pipelined requests wait here; beyond it in the socket.
constexpr size_t kInputBytesMax = size_t{64} << 10;
// What is made ahead of the socket.
constexpr size_t kOutputBytesMax = size_t{256} << 10;
// What an idle connection keeps of its output buffer.
constexpr size_t kIdleCapacityMax = size_t{16} << 10;

constexpr std::string_view kStreamHead =
    "HTTP/1.1 200 OK\r\nserver: millrace-mock\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    "cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n";
// Filled in when the chunk's size is known.
constexpr std::string_view kChunkSize = "00000000\r\n";

}  // namespace

MockConnection::MockConnection(MockThread& thread, http::UniqueFd socket, ConnectionId id)
    : thread_(thread), socket_(std::move(socket)), id_(id), parser_(thread.limits()) {}

MockConnection::~MockConnection() {
  if (state_ == State::kAnswering) thread_.leave_turn();
  // Where it waits no more, its turn is on its way: the thread will find nobody and pass it on.
  if (state_ == State::kWaiting) static_cast<void>(thread_.state().turns().forget({&thread_, id_}));
}

bool MockConnection::on_events(uint32_t events) {
  const bool is_ending = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  if (is_ending || (events & EPOLLIN) != 0) {
    if (!receive(is_ending)) return false;
  }
  return settle();
}

bool MockConnection::on_due(TimePoint when) {
  if (due_at_ != when) return true;
  due_at_.reset();
  if (state_ == State::kAnswering) pump();
  return settle();
}

bool MockConnection::on_turn() {
  CHECK(state_ == State::kWaiting, "a turn comes to who waits for it");
  state_ = State::kAnswering;
  turn_at_ = Clock::now();
  pump();
  return settle();
}

// The socket is watched for edges: it must be emptied. A short read has emptied it, unless it is
// the connection's end that is to be read.
bool MockConnection::receive(bool until_end) {
  const std::span<char> buffer = thread_.read_buffer();
  while (true) {
    is_input_paused_ = in_.size() >= kInputBytesMax;
    if (is_input_paused_) return true;
    const ssize_t rc = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (rc < 0 && errno == EINTR) continue;
    if (rc < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (rc == 0) return false;
    const auto num_bytes = static_cast<size_t>(rc);
    take_bytes({buffer.data(), num_bytes});
    if (num_bytes < buffer.size() && !until_end) return true;
  }
}

void MockConnection::take_bytes(std::string_view bytes) {
  if (is_closing_) return;
  const size_t num_used = in_.empty() ? process(bytes) : 0;
  in_.append(bytes.substr(num_used));
}

size_t MockConnection::process(std::string_view bytes) {
  size_t num_used = 0;
  while (state_ == State::kReading && !is_closing_ && num_used < bytes.size() &&
         num_unsent() < kOutputBytesMax) {
    num_used += parser_.feed(bytes.substr(num_used));
    advance_parser();
  }
  return num_used;
}

void MockConnection::advance_parser() {
  using http::ParserState;
  if (parser_.state() == ParserState::kHeadComplete) {
    const http::RequestHead& head = parser_.request().head;
    is_keep_alive_ = head.is_keep_alive() && !head.is_http_1_0();
    if (head.expects_continue()) out_ += "HTTP/1.1 100 Continue\r\n\r\n";
    parser_.read_body();
  }
  if (parser_.state() == ParserState::kRefused) {
    is_keep_alive_ = false;
    respond(mock_error(parser_.refusal().status, parser_.refusal().message));
  } else if (parser_.state() == ParserState::kComplete) {
    dispatch(parser_.take());
  }
}

void MockConnection::dispatch(const http::Request& request) {
  const MockOptions& options = thread_.state().options();
  if (const auto refused = check_mock_key(options, request)) return respond(*refused);
  const std::optional<MockApi> api = mock_api_of(request.path());
  if (!api || request.method() != "POST") {
    return respond(answer_mock_request(thread_.state(), request));
  }
  if (const auto refusal = http::check_json_content_type(request)) {
    return respond(mock_error(refusal->status, refusal->message));
  }
  start_answer(*api, request);
}

void MockConnection::start_answer(MockApi api, const http::Request& request) {
  const TimePoint now = Clock::now();
  MockState& state = thread_.state();
  const MockOptions& options = state.options();
  const Result<MockRequest> read = read_mock_request(api, request.body, options.model);
  if (!read) return respond(mock_error(read.error()));
  if (read->wants_usage_deltas && options.refuses_usage_deltas) {
    return respond(mock_error(400, "expected no such field", "stream_options"));
  }
  if (read->is_streamed && request.head.is_http_1_0()) {
    return respond(mock_error(505, "streams are sent to HTTP/1.1 clients"));
  }
  const std::optional<int64_t> number = state.take_number();
  if (!number) {
    is_closing_ = true;
    return thread_.die();
  }
  if (options.fails_every && (*number + 1) % *options.fails_every == 0) {
    return respond(mock_error(500, "the mock server was told to fail"));
  }
  answer_.emplace(options, *read, *number, state.created_s());
  has_head_ = false;
  times_ = {.read = now, .tokens = {}};
  turn_at_ = now;
  const bool is_turn = state.turns().enter({&thread_, id_});
  state_ = is_turn ? State::kAnswering : State::kWaiting;
  if (is_turn) pump();
}

void MockConnection::respond(const http::Response& response) {
  fmt::format_to(
      std::back_inserter(out_),
      "HTTP/1.1 {} {}\r\nserver: millrace-mock\r\n",
      response.status,
      http::reason_phrase(response.status)
  );
  for (const http::Header& header : response.headers) {
    fmt::format_to(std::back_inserter(out_), "{}: {}\r\n", header.name, header.value);
  }
  if (!is_keep_alive_) out_ += "connection: close\r\n";
  fmt::format_to(std::back_inserter(out_), "content-length: {}\r\n\r\n", response.body.size());
  out_ += response.body;
  if (!is_keep_alive_) is_closing_ = true;
}

// Writes what is due and says when to come back.
void MockConnection::pump() {
  // The socket is full: settle() comes back.
  if (num_unsent() >= kOutputBytesMax) return;
  const TimePoint now = Clock::now();
  const int64_t num_before = answer_->num_tokens_sent();
  if (answer_->is_streamed()) {
    append_stream(now);
  } else {
    append_whole(now);
  }
  if (const int64_t num_new = answer_->num_tokens_sent() - num_before; num_new > 0) {
    thread_.state().note_tokens(num_new);
    if (thread_.state().options().keeps_times) {
      times_.tokens.insert(
          times_.tokens.end(), static_cast<size_t>(num_new), Clock::now() - times_.read
      );
    }
  }
  if (answer_->state() != MockAnswer::State::kOpen) return end_answer();
  set_due(turn_at_ + answer_->next_due());
}

// What is due already has its turn after what the thread has to do now.
void MockConnection::set_due(TimePoint due) {
  due_at_ = std::max(due, Clock::now());
  thread_.set_due(id_, *due_at_);
}

// What is due makes one HTTP chunk.
void MockConnection::append_stream(TimePoint now) {
  const size_t begin = out_.size();
  if (!has_head_) out_ += kStreamHead;
  const size_t size_begin = out_.size();
  out_ += kChunkSize;
  const size_t body_begin = out_.size();
  answer_->append_due(now - turn_at_, num_out_sent_ + kOutputBytesMax, out_);
  const size_t size = out_.size() - body_begin;
  if (size == 0 && answer_->state() == MockAnswer::State::kOpen) {
    out_.resize(begin);
    return;
  }
  has_head_ = true;
  if (size == 0) {
    out_.resize(size_begin);
  } else {
    fmt::format_to_n(out_.begin() + static_cast<ptrdiff_t>(size_begin), 8, "{:08x}", size);
    out_ += "\r\n";
  }
  if (answer_->state() == MockAnswer::State::kWhole) out_ += "0\r\n\r\n";
}

void MockConnection::append_whole(TimePoint now) {
  std::string body;
  answer_->append_due(now - turn_at_, 0, body);
  if (!body.empty()) respond(http::json_response(200, std::move(body)));
}

// Before the last bytes leave: who has them finds everything in its place.
void MockConnection::end_answer() {
  MockState& state = thread_.state();
  if (answer_->state() == MockAnswer::State::kBroken || !is_keep_alive_) is_closing_ = true;
  if (state.options().keeps_times) state.keep_times(answer_->number(), std::move(times_));
  state.note_end(*answer_);
  answer_.reset();
  state_ = State::kReading;
  due_at_.reset();
  thread_.leave_turn();
}

bool MockConnection::flush() {
  while (num_unsent() > 0) {
    const ssize_t rc =
        ::send(socket_.get(), out_.data() + num_out_sent_, num_unsent(), MSG_NOSIGNAL);
    if (rc < 0 && errno == EINTR) continue;
    if (rc < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    num_out_sent_ += static_cast<size_t>(rc);
  }
  out_.clear();
  num_out_sent_ = 0;
  if (out_.capacity() > kIdleCapacityMax && state_ == State::kReading) out_.shrink_to_fit();
  return true;
}

bool MockConnection::settle() {
  while (true) {
    if (!flush()) return false;
    if (is_closing_) return num_unsent() > 0;
    // A full output had stopped the answer.
    const bool is_stopped = state_ == State::kAnswering && !due_at_;
    if (is_stopped && num_unsent() < kOutputBytesMax) set_due(Clock::now());
    if (is_input_paused_ && in_.size() < kInputBytesMax) {
      if (!receive(true)) return false;
    }
    const bool is_ready = state_ == State::kReading && num_unsent() < kOutputBytesMax;
    if (!is_ready || in_.empty()) return true;
    const std::string bytes = std::exchange(in_, {});
    const size_t num_used = process(bytes);
    in_.assign(bytes, num_used);
  }
}

}  // namespace millrace::bench
