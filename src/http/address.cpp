#include "http/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>

namespace millrace::http {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr int kListenBacklog = 4096;

struct AddressInfoFree {
  void operator()(addrinfo* info) const { freeaddrinfo(info); }
};

std::optional<uint16_t> parse_port(std::string_view text) {
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

Error system_error(std::string_view what, const Address& address) {
  return {
      ErrorCode::kInvalidArgument,
      fmt::format("cannot {} {}: {}", what, to_string(address), std::strerror(errno)),
      to_string(address),
  };
}

void set_option(int fd, int level, int name, int value) {
  // Each of these options is an improvement, not a condition.
  static_cast<void>(::setsockopt(fd, level, name, &value, sizeof value));
}

void set_tcp_options(int fd, const HttpLimits& limits) {
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // A peer that vanished without a word: noticed by unacknowledged data, or by probes when there is
  // none to send.
  set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(limits.write_timeout.count()));
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

uint16_t bound_port(int fd) {
  sockaddr_storage name = {};
  socklen_t size = sizeof name;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &size) != 0) return 0;
  if (name.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&name)->sin6_port);
  }
  return ntohs(reinterpret_cast<const sockaddr_in*>(&name)->sin_port);
}

Result<ListeningSocket> listen_tcp(const TcpAddress& address, const HttpLimits& limits) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(address.port);
  const int rc = ::getaddrinfo(address.host.c_str(), port.c_str(), &hints, &found);
  if (rc != 0) {
    return invalid_argument(
        fmt::format("cannot resolve '{}': {}", address.host, gai_strerror(rc)), to_string(address)
    );
  }
  const std::unique_ptr<addrinfo, AddressInfoFree> info(found);
  const int fd =
      ::socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, info->ai_protocol);
  if (fd < 0) return system_error("make a socket for", address);
  ListeningSocket socket{.fd = UniqueFd(fd), .address = address};
  set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  // "[::]" and "0.0.0.0" on the same port are two addresses.
  if (info->ai_family == AF_INET6) set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  set_tcp_options(fd, limits);
  set_option(fd, SOL_SOCKET, SO_SNDBUF, static_cast<int>(limits.socket_send_bytes));
  if (::bind(fd, info->ai_addr, info->ai_addrlen) != 0) return system_error("listen on", address);
  if (::listen(fd, kListenBacklog) != 0) return system_error("listen on", address);
  socket.address = TcpAddress{.host = address.host, .port = bound_port(fd)};
  return socket;
}

// Removes a socket file that nobody listens on.
void remove_stale(const UnixAddress& address, const sockaddr_un& name) {
  struct stat status = {};
  if (::lstat(address.path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  const UniqueFd probe(fd);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0 &&
      errno == ECONNREFUSED) {
    ::unlink(address.path.c_str());
  }
}

Result<ListeningSocket> listen_unix(const UnixAddress& address, const HttpLimits& limits) {
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  if (address.path.empty() || address.path.size() >= sizeof name.sun_path) {
    return invalid_argument(
        fmt::format("a Unix socket's path has 1 to {} bytes", sizeof name.sun_path - 1),
        to_string(address)
    );
  }
  std::copy(address.path.begin(), address.path.end(), name.sun_path);
  remove_stale(address, name);
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return system_error("make a socket for", address);
  ListeningSocket socket{.fd = UniqueFd(fd), .address = address};
  set_option(fd, SOL_SOCKET, SO_SNDBUF, static_cast<int>(limits.socket_send_bytes));
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    return system_error("listen on", address);
  }
  if (::listen(fd, kListenBacklog) != 0) return system_error("listen on", address);
  return socket;
}

}  // namespace

Result<Address> parse_address(std::string_view text) {
  const auto malformed = [&] {
    return invalid_argument("expected host:port, [IPv6]:port or unix:PATH", std::string(text));
  };
  if (text.starts_with(kUnixPrefix)) {
    text.remove_prefix(kUnixPrefix.size());
    if (text.empty()) return malformed();
    return Address(UnixAddress{.path = std::string(text)});
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || colon == 0) return malformed();
  const std::optional<uint16_t> port = parse_port(text.substr(colon + 1));
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return malformed();
  }
  if (!port || host.empty() || host.find('\0') != std::string_view::npos) return malformed();
  return Address(TcpAddress{.host = std::string(host), .port = *port});
}

std::string to_string(const Address& address) {
  if (const auto* local = std::get_if<UnixAddress>(&address)) {
    return std::string(kUnixPrefix) + local->path;
  }
  const auto& tcp = *std::get_if<TcpAddress>(&address);
  const bool is_v6 = tcp.host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("[{}]:{}", tcp.host, tcp.port)
               : fmt::format("{}:{}", tcp.host, tcp.port);
}

std::string describe_peer(const sockaddr_storage& peer) {
  char text[INET6_ADDRSTRLEN] = {};
  if (peer.ss_family == AF_INET) {
    const auto& name = reinterpret_cast<const sockaddr_in&>(peer);
    ::inet_ntop(AF_INET, &name.sin_addr, text, sizeof text);
    return fmt::format("{}:{}", text, ntohs(name.sin_port));
  }
  if (peer.ss_family == AF_INET6) {
    const auto& name = reinterpret_cast<const sockaddr_in6&>(peer);
    ::inet_ntop(AF_INET6, &name.sin6_addr, text, sizeof text);
    return fmt::format("[{}]:{}", text, ntohs(name.sin6_port));
  }
  return "unix";
}

Result<ListeningSocket> listen_on(const Address& address, const HttpLimits& limits) {
  if (const auto* local = std::get_if<UnixAddress>(&address)) return listen_unix(*local, limits);
  return listen_tcp(*std::get_if<TcpAddress>(&address), limits);
}

}  // namespace millrace::http
