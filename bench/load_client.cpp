#include "bench/load_client.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace millrace::bench {
namespace {

Error system_error(std::string_view what) {
  return {ErrorCode::kInternal, fmt::format("{}: {}", what, std::strerror(errno))};
}

Result<http::UniqueFd> connect_to(uint16_t port) {
  http::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in name = {};
  name.sin_family = AF_INET;
  name.sin_port = htons(port);
  name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) {
    return system_error(fmt::format("cannot connect to 127.0.0.1:{}", port));
  }
  return fd;
}

}  // namespace

Result<LoadClient> LoadClient::connect(uint16_t port, size_t num_connections) {
  LoadClient client(port);
  client.epoll_ = http::UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  for (size_t i = 0; i < num_connections; ++i) {
    if (Result<void> added = client.add_connection(); !added) return added.error();
  }
  return client;
}

Result<void> LoadClient::add_connection() {
  Result<http::UniqueFd> socket = connect_to(port_);
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
