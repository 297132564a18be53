// Many keep-alive connections to one server on this machine, all on the caller's thread.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "bench/response_reader.h"
#include "http/address.h"
#include "http/unique_fd.h"

namespace millrace::bench {

// What a scenario does with what is received. An error ends the scenario.
class ResponseHandler {
 public:
  virtual ~ResponseHandler() = default;
  // One read of a connection brought the ends of `num_new` events.
  virtual void on_events(size_t /*connection*/, size_t /*num_new*/, TimePoint /*now*/) {}
  // A whole response. The reader is ready for the next one when this returns.
  virtual Result<void> on_response(
      size_t connection, const ResponseReader& response, TimePoint now
  ) = 0;
  // Whether the body of the connection's next response is to be kept for a check.
  virtual bool keeps_body(size_t /*connection*/) { return false; }
};

class LoadClient {
 public:
  // TCP addresses are numeric, IPv4.
  static Result<LoadClient> connect(const http::Address& address, size_t num_connections);

  size_t num_connections() const { return connections_.size(); }
  // One more: its number is num_connections() before.
  Result<void> add_connection();

  // REQUIRES: `bytes` fit the socket's buffer: an error otherwise, for the server does not read.
  Result<void> send(size_t connection, std::string_view bytes);

  // Tells the reader of `connection` to keep its body; before its first request.
  void keep_body(size_t connection) { connections_[connection].reader.next(true); }
  const ResponseReader& reader(size_t connection) const { return connections_[connection].reader; }

  // Waits for at most `timeout` (0: not at all) and handles what came. An error: a connection
  // closed, or a response that is none, or the handler's.
  Result<void> poll(ResponseHandler& handler, std::chrono::milliseconds timeout);

 private:
  struct Connection {
    http::UniqueFd socket;
    ResponseReader reader;
  };

  explicit LoadClient(http::Address address) : address_(std::move(address)) {}
  Result<void> receive(size_t connection, ResponseHandler& handler);

  http::Address address_;
  http::UniqueFd epoll_;
  std::vector<Connection> connections_;
  std::vector<char> buffer_ = std::vector<char>(size_t{256} << 10);
};

}  // namespace millrace::bench
