// One connection to the server: opens, sends, receives, in the clear or through TLS. Lives on the
// reactor of one load thread, which alone calls it.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "loadgen/endpoint.h"
#include "loadgen/exchange.h"

namespace millrace::bench {

class LoadConnection;
using ConnectionList = std::list<std::shared_ptr<LoadConnection>>;

// Who owns connections: what it hears of them.
class ConnectionOwner {
 public:
  virtual ~ConnectionOwner() = default;
  virtual void on_open(LoadConnection& connection) = 0;
  virtual void on_sending(LoadConnection& connection, TimePoint now) = 0;
  virtual void on_bytes(LoadConnection& connection, std::string_view bytes, TimePoint now) = 0;
  // It could not be opened, or has ended: closed by now.
  virtual void on_closed(LoadConnection& connection, const ConnectionFailure& failure) = 0;
};

class LoadConnection : public std::enable_shared_from_this<LoadConnection> {
 public:
  // All outlive it; `buffer` is the thread's, for any one read.
  LoadConnection(
      boost::asio::io_context& io,
      const Endpoint& endpoint,
      ConnectionOwner& owner,
      std::span<char> buffer,
      const ExchangeOptions& options
  );

  // Opens a new socket; what there was is closed. Its owner hears how that went, maybe at once.
  void open();
  bool is_open() const { return state_ == State::kOpen; }
  bool is_opening() const { return state_ == State::kConnecting || state_ == State::kHandshaking; }
  // Which opening this is; for time limits.
  int64_t num_openings() const { return num_openings_; }

  // REQUIRES: is_open(), nothing is being sent; `bytes` stay until the answer has begun.
  void send(std::string_view bytes);
  // Silently.
  void close();
  // As if the system had said so.
  void fail(const ConnectionFailure& failure);

  // Its owner's notes.
  Exchange exchange;
  TimePoint deadline;              // of the exchange
  bool was_idle = false;           // before the exchange: the server may have closed it meanwhile
  ConnectionList* list = nullptr;  // of its owner's, where it is
  ConnectionList::iterator place;  // in that list

 private:
  enum class State { kClosed, kConnecting, kHandshaking, kOpen };

  void try_names();
  void on_connected();
  void shake_hands();
  void on_ready();
  void flush();
  void receive();
  void on_writable();
  void arm_read();
  void arm_write();

  boost::asio::posix::stream_descriptor socket_;
  const Endpoint& endpoint_;
  ConnectionOwner& owner_;
  std::span<char> buffer_;
  std::unique_ptr<http::Transport> transport_;
  State state_ = State::kClosed;
  size_t next_name_ = 0;
  std::optional<ConnectionFailure> last_failure_;
  std::string_view unsent_;
  // Counts openings: an event of an earlier socket is of no interest.
  int64_t num_openings_ = 0;
  bool is_read_armed_ = false;
  bool is_write_armed_ = false;
};

}  // namespace millrace::bench
