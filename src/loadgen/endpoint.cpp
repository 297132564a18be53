#include "loadgen/endpoint.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace millrace::bench {
namespace {

struct AddressInfoFree {
  void operator()(addrinfo* info) const { ::freeaddrinfo(info); }
};

// Thread-safe, where strerror() is not.
std::string error_text(int error) {
  char buffer[128] = {};
  return ::strerror_r(error, buffer, sizeof buffer);
}

}  // namespace

Result<Endpoint> Endpoint::make(const Target& target) {
  Endpoint endpoint;
  endpoint.text_ = http::to_string(target.url.address);
  if (const auto* tcp = std::get_if<http::TcpAddress>(&target.url.address)) {
    endpoint.host_ = tcp->host;
  }
  if (target.url.is_tls) {
    Result<http::TlsContext> tls = http::TlsContext::for_client(target.ca_file, target.is_verified);
    if (!tls) return tls.error();
    endpoint.tls_ = std::move(*tls);
  }
  endpoint.find_names(target.url.address);
  return endpoint;
}

void Endpoint::find_names(const http::Address& address) {
  if (const auto* local = std::get_if<http::UnixAddress>(&address)) {
    SocketName name;
    auto* un = reinterpret_cast<sockaddr_un*>(&name.address);
    if (local->path.size() >= sizeof un->sun_path) {
      lookup_failure_ = {
          FailureKind::kConnect, fmt::format("{}: the path of the Unix socket is too long", text_)};
      return;
    }
    un->sun_family = AF_UNIX;
    std::copy(local->path.begin(), local->path.end(), un->sun_path);
    name.size = sizeof *un;
    names_.push_back(name);
    return;
  }
  const auto& tcp = *std::get_if<http::TcpAddress>(&address);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(tcp.port);
  const int rc = ::getaddrinfo(tcp.host.c_str(), port.c_str(), &hints, &found);
  if (rc != 0) {
    lookup_failure_ = {
        FailureKind::kConnect,
        fmt::format("cannot connect to {}: cannot find the host: {}", text_, ::gai_strerror(rc))};
    return;
  }
  const std::unique_ptr<addrinfo, AddressInfoFree> info(found);
  for (const addrinfo* next = found; next != nullptr; next = next->ai_next) {
    SocketName name;
    name.size = std::min<socklen_t>(next->ai_addrlen, sizeof name.address);
    std::memcpy(&name.address, next->ai_addr, name.size);
    names_.push_back(name);
  }
}

std::optional<ConnectionFailure> Endpoint::open(
    const SocketName& name, http::UniqueFd& socket, bool& is_connected
) const {
  const int family = name.address.ss_family;
  const int fd = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    const int error = errno;
    return ConnectionFailure{
        FailureKind::kClientLimit, fmt::format("cannot make a socket: {}", error_text(error))};
  }
  socket = http::UniqueFd(fd);
  if (family != AF_UNIX) {
    const int on = 1;
    static_cast<void>(::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
  }
  const int rc = ::connect(fd, reinterpret_cast<const sockaddr*>(&name.address), name.size);
  is_connected = rc == 0;
  if (is_connected || errno == EINPROGRESS) return std::nullopt;
  return connect_failure(errno);
}

ConnectionFailure Endpoint::connect_failure(int error) const {
  const bool is_ours = error == EADDRNOTAVAIL || error == EMFILE || error == ENFILE ||
                       error == ENOBUFS || error == ENOMEM;
  return {
      is_ours ? FailureKind::kClientLimit : FailureKind::kConnect,
      fmt::format("cannot connect to {}: {}", text_, error_text(error)),
  };
}

std::unique_ptr<http::Transport> Endpoint::make_transport(int socket) const {
  if (tls_) return tls_->connect(socket, host_);
  return http::make_plain_transport(socket);
}

}  // namespace millrace::bench
