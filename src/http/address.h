// Where a server listens and a client connects: TCP over IPv4 or IPv6, or a Unix socket.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "http/limits.h"
#include "http/unique_fd.h"

namespace millrace::http {

struct TcpAddress {
  std::string host;  // a name or an address; IPv6 without brackets
  uint16_t port = 0;
};
struct UnixAddress {
  std::string path;
};
using Address = std::variant<TcpAddress, UnixAddress>;

// "host:port", "[IPv6]:port" or "unix:PATH".
Result<Address> parse_address(std::string_view text);

// The inverse of parse_address().
std::string to_string(const Address& address);

// "127.0.0.1:4711", "[::1]:4711", or "unix" for any Unix socket.
std::string describe_peer(const sockaddr_storage& peer);

struct ListeningSocket {
  UniqueFd fd;      // non-blocking
  Address address;  // with the port that the system chose, if it was to choose
};

// Binds and listens. Connections inherit the socket's options: no Nagle delay, a send buffer of
// `socket_send_bytes`, probes for dead peers. A Unix socket whose server is gone is replaced.
Result<ListeningSocket> listen_on(const Address& address, const HttpLimits& limits);

}  // namespace millrace::http
