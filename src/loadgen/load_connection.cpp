#include "loadgen/load_connection.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <utility>

namespace millrace::bench {
namespace {

using boost::asio::posix::descriptor_base;
using boost::system::error_code;

// Reads of one event, so that one fast stream leaves time for the others.
constexpr int kReadsPerEvent = 4;

}  // namespace

LoadConnection::LoadConnection(
    boost::asio::io_context& io,
    const Endpoint& endpoint,
    ConnectionOwner& owner,
    std::span<char> buffer,
    const ExchangeOptions& options
)
    : exchange(options), socket_(io), endpoint_(endpoint), owner_(owner), buffer_(buffer) {}

void LoadConnection::open() {
  close();
  ++num_openings_;
  next_name_ = 0;
  last_failure_ = endpoint_.lookup_failure();
  state_ = State::kConnecting;
  try_names();
}

void LoadConnection::try_names() {
  while (next_name_ < endpoint_.names().size()) {
    http::UniqueFd socket;
    bool is_connected = false;
    last_failure_ = endpoint_.open(endpoint_.names()[next_name_++], socket, is_connected);
    if (last_failure_) continue;
    error_code error;
    socket_.assign(socket.get(), error);
    if (error) {
      last_failure_ = {FailureKind::kClientLimit, "cannot watch a socket: " + error.message()};
      continue;
    }
    static_cast<void>(socket.release());
    is_connected ? on_connected() : arm_write();
    return;
  }
  fail(last_failure_.value_or(ConnectionFailure{FailureKind::kConnect, "no address"}));
}

void LoadConnection::on_connected() {
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_.native_handle(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) {
    last_failure_ = endpoint_.connect_failure(error);
    error_code ignored;
    socket_.close(ignored);
    return try_names();
  }
  transport_ = endpoint_.make_transport(socket_.native_handle());
  if (transport_ == nullptr) return fail({FailureKind::kTls, "OpenSSL does not start"});
  state_ = State::kHandshaking;
  shake_hands();
}

void LoadConnection::shake_hands() {
  if (!transport_->is_established()) {
    // Reads nothing yet: a server of HTTP does not speak first.
    const http::IoResult result = transport_->read(buffer_);
    if (result.status == http::IoStatus::kEnd || result.status == http::IoStatus::kFailed) {
      const std::string why = result.status == http::IoStatus::kEnd
                                  ? "the server closed the connection"
                                  : transport_->failure();
      return fail({FailureKind::kTls, fmt::format("TLS with {} failed: {}", endpoint_.text(), why)}
      );
    }
    if (!transport_->is_established()) {
      return result.status == http::IoStatus::kWantWrite ? arm_write() : arm_read();
    }
  }
  state_ = State::kOpen;
  arm_read();
  owner_.on_open(*this);
}

void LoadConnection::send(std::string_view bytes) {
  unsent_ = bytes;
  const TimePoint now = Clock::now();
  owner_.on_sending(*this, now);
  flush();
}

void LoadConnection::flush() {
  while (!unsent_.empty()) {
    const http::IoResult result = transport_->write({&unsent_, 1});
    if (result.status == http::IoStatus::kDone) {
      unsent_.remove_prefix(result.num_bytes);
    } else if (result.status == http::IoStatus::kWantWrite) {
      return arm_write();
    } else if (result.status == http::IoStatus::kWantRead) {
      return arm_read();
    } else {
      // The server takes no more; what it says to that, or that it is gone, comes with a read.
      unsent_ = {};
    }
  }
}

void LoadConnection::receive() {
  const std::shared_ptr<LoadConnection> self = shared_from_this();
  const int64_t opening = num_openings_;
  const bool is_buffering = transport_->is_buffering();
  for (int i = 0; is_buffering || i < kReadsPerEvent; ++i) {
    const http::IoResult result = transport_->read(buffer_);
    const TimePoint now = Clock::now();
    if (result.status == http::IoStatus::kWantRead) break;
    if (result.status == http::IoStatus::kWantWrite) {
      arm_write();
      break;
    }
    if (result.status == http::IoStatus::kEnd) {
      return fail({FailureKind::kClosed, "the server closed the connection before the answer's end"}
      );
    }
    if (result.status == http::IoStatus::kFailed) {
      return fail(
          {FailureKind::kClosed,
           fmt::format("the connection broke before the answer's end: {}", transport_->failure())}
      );
    }
    owner_.on_bytes(*this, {buffer_.data(), result.num_bytes}, now);
    if (state_ != State::kOpen || num_openings_ != opening) return;
    // A short read emptied the socket; the reactor says when there is more.
    if (!is_buffering && result.num_bytes < buffer_.size()) break;
  }
  arm_read();
  // TLS may have waited for what was read.
  flush();
}

void LoadConnection::on_ready() {
  switch (state_) {
    case State::kClosed:
      return;
    case State::kConnecting:
      return on_connected();
    case State::kHandshaking:
      return shake_hands();
    case State::kOpen:
      return receive();
  }
}

void LoadConnection::on_writable() {
  if (state_ != State::kOpen) return on_ready();
  flush();
  if (transport_ != nullptr && transport_->is_buffering()) receive();
}

void LoadConnection::arm_read() {
  if (is_read_armed_) return;
  is_read_armed_ = true;
  socket_.async_wait(
      descriptor_base::wait_read,
      [self = shared_from_this(), opening = num_openings_](const error_code& error) {
        if (opening != self->num_openings_) return;
        self->is_read_armed_ = false;
        if (!error) self->on_ready();
      }
  );
}

void LoadConnection::arm_write() {
  if (is_write_armed_) return;
  is_write_armed_ = true;
  socket_.async_wait(
      descriptor_base::wait_write,
      [self = shared_from_this(), opening = num_openings_](const error_code& error) {
        if (opening != self->num_openings_) return;
        self->is_write_armed_ = false;
        if (!error) self->on_writable();
      }
  );
}

void LoadConnection::close() {
  if (transport_ != nullptr) transport_->end_writing();
  transport_.reset();
  error_code ignored;
  if (socket_.is_open()) socket_.close(ignored);
  state_ = State::kClosed;
  unsent_ = {};
  ++num_openings_;
  is_read_armed_ = false;
  is_write_armed_ = false;
}

void LoadConnection::fail(const ConnectionFailure& failure) {
  const std::shared_ptr<LoadConnection> self = shared_from_this();
  close();
  owner_.on_closed(*this, failure);
}

}  // namespace millrace::bench
