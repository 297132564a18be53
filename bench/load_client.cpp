#include "bench/load_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace millrace::bench {
namespace {

Error system_error(std::string_view what) {
  return {ErrorCode::kInternal, fmt::format("{}: {}", what, std::strerror(errno))};
}

Result<http::UniqueFd> connect_tcp(const http::TcpAddress& address) {
  http::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = htons(address.port);
  if (::inet_pton(AF_INET, address.host.c_str(), &name.sin_addr) != 1) {
    return invalid_argument(fmt::format("'{}' is no IPv4 address", address.host));
  }
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    return system_error(fmt::format("cannot connect to {}", http::to_string(address)));
  }
  return fd;
}

Result<http::UniqueFd> connect_unix(const http::UnixAddress& address) {
  http::UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  if (address.path.size() >= sizeof name.sun_path) {
    return invalid_argument(fmt::format("'{}' is too long for a socket's path", address.path));
  }
  std::copy(address.path.begin(), address.path.end(), name.sun_path);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    return system_error(fmt::format("cannot connect to {}", http::to_string(address)));
  }
  return fd;
}

Result<http::UniqueFd> connect_to(const http::Address& address) {
  if (const auto* local = std::get_if<http::UnixAddress>(&address)) return connect_unix(*local);
  return connect_tcp(*std::get_if<http::TcpAddress>(&address));
}

}  // namespace

Result<LoadClient> LoadClient::connect(const http::Address& address, size_t num_connections) {
  LoadClient client(address);
  client.epoll_ = http::UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  for (size_t i = 0; i < num_connections; ++i) {
    if (Result<void> added = client.add_connection(); !added) return added.error();
  }
  return client;
}

Result<void> LoadClient::add_connection() {
  Result<http::UniqueFd> socket = connect_to(address_);
  if (!socket) return socket.error();
  epoll_event event = {.events = EPOLLIN, .data = {.u64 = connections_.size()}};
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, socket->get(), &event) != 0) {
    return system_error("epoll_ctl");
  }
  connections_.push_back({.socket = std::move(*socket)});
  return {};
}

Result<void> LoadClient::send(size_t connection, std::string_view bytes) {
  const int fd = connections_[connection].socket.get();
  const ssize_t num = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (num != static_cast<ssize_t>(bytes.size())) return system_error("the server does not read");
  return {};
}

Result<void> LoadClient::poll(ResponseHandler& handler, std::chrono::milliseconds timeout) {
  std::array<epoll_event, 512> events;
  const int num = ::epoll_wait(
      epoll_.get(),
      events.data(),
      static_cast<int>(events.size()),
      static_cast<int>(timeout.count())
  );
  if (num < 0 && errno != EINTR) return system_error("epoll_wait");
  for (int i = 0; i < num; ++i) {
    if (Result<void> received = receive(events[static_cast<size_t>(i)].data.u64, handler);
        !received) {
      return received;
    }
  }
  return {};
}

Result<void> LoadClient::receive(size_t connection, ResponseHandler& handler) {
  Connection& from = connections_[connection];
  const ssize_t num = ::recv(from.socket.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (num < 0 && (errno == EAGAIN || errno == EINTR)) return {};
  if (num < 0) return system_error("recv");
  if (num == 0) return Error{ErrorCode::kInternal, "the server closed a connection"};
  const TimePoint now = Clock::now();
  std::string_view bytes(buffer_.data(), static_cast<size_t>(num));
  while (!bytes.empty()) {
    const size_t num_before = from.reader.num_events();
    const Result<size_t> taken = from.reader.feed(bytes);
    if (!taken) return taken.error();
    bytes.remove_prefix(*taken);
    const size_t num_new = from.reader.num_events() - num_before;
    if (num_new > 0) handler.on_events(connection, num_new, now);
    if (!from.reader.is_complete()) continue;
    if (Result<void> handled = handler.on_response(connection, from.reader, now); !handled) {
      return handled;
    }
    if (from.reader.must_close()) return Error{ErrorCode::kInternal, "Connection: close"};
    from.reader.next(handler.keeps_body(connection));
  }
  return {};
}

}  // namespace millrace::bench
