// For tests: a client that sends exactly the bytes it is told.
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "http/characters.h"
#include "http/unique_fd.h"

namespace millrace::http {

// How long a test waits for what must come. Never reached unless something is wrong.
constexpr std::chrono::seconds kPatience{30};

inline bool eventually(const std::function<bool()>& condition) {
  const TimePoint deadline = Clock::now() + kPatience;
  while (!condition()) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

struct PeerResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

class RawPeer {
 public:
  explicit RawPeer(uint16_t port, int receive_buffer_bytes = 0)
      : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer_bytes > 0) {
      ::setsockopt(
          fd_.get(), SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof receive_buffer_bytes
      );
    }
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
  }

  // False when the server has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t rc = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (rc <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(rc));
    }
    return true;
  }

  // The next response, by its length, its chunks or to the end of the connection; nullopt if there
  // is none. What follows it is kept.
  std::optional<PeerResponse> read_response(bool is_head_only = false) {
    const std::optional<std::string> head = take_until("\r\n\r\n");
    if (!head) return std::nullopt;
    PeerResponse response;
    std::from_chars(head->data() + 9, head->data() + 12, response.status);
    for (size_t at = head->find("\r\n") + 2; at + 2 < head->size();) {
      const size_t end = head->find("\r\n", at);
      const std::string line = head->substr(at, end - at);
      std::string name = line.substr(0, line.find(':'));
      std::transform(name.begin(), name.end(), name.begin(), to_lower);
      response.headers[name] = line.substr(std::min(line.size(), line.find(':') + 2));
      at = end + 2;
    }
    const bool is_bodyless = is_head_only || response.status < 200 || response.status == 204;
    if (is_bodyless) return response;
    if (!read_body(response)) return std::nullopt;
    return response;
  }

  // One chunk of a chunked body; nullopt at the end of the connection, "" for the last chunk.
  std::optional<std::string> read_chunk() {
    const std::optional<std::string> line = take_until("\r\n");
    if (!line) return std::nullopt;
    size_t size = 0;
    std::from_chars(line->data(), line->data() + line->size(), size, 16);
    std::optional<std::string> chunk = take(size + 2);
    if (chunk) chunk->resize(size);
    return chunk;
  }

  // Everything up to the end of the connection.
  std::string read_to_end() {
    while (receive()) {
    }
    return std::exchange(received_, {});
  }

  // Whether the server closes the connection without sending a byte.
  bool is_closed_silently() { return read_to_end().empty(); }

  void half_close() { ::shutdown(fd_.get(), SHUT_WR); }
  void close() { fd_.reset(); }
  void reset() {
    const linger no_time = {.l_onoff = 1, .l_linger = 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &no_time, sizeof no_time);
    fd_.reset();
  }
  int fd() const { return fd_.get(); }

 private:
  bool read_body(PeerResponse& response) {
    if (response.headers.contains("content-length")) {
      std::optional<std::string> body = take(std::stoul(response.header("content-length")));
      if (body) response.body = std::move(*body);
      return body.has_value();
    }
    if (response.header("transfer-encoding") != "chunked") {
      response.body = read_to_end();
      return true;
    }
    while (true) {
      const std::optional<std::string> chunk = read_chunk();
      if (!chunk) return false;
      if (chunk->empty()) return true;
      response.body += *chunk;
    }
  }

  bool receive() {
    pollfd entry = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
    const auto patience = std::chrono::milliseconds(kPatience).count();
    if (::poll(&entry, 1, static_cast<int>(patience)) <= 0) {
      ADD_FAILURE() << "the server sends nothing";
      return false;
    }
    char buffer[16384];
    const ssize_t rc = ::recv(fd_.get(), buffer, sizeof buffer, 0);
    if (rc <= 0) return false;
    received_.append(buffer, static_cast<size_t>(rc));
    return true;
  }

  std::optional<std::string> take_until(std::string_view mark) {
    size_t at = 0;
    while ((at = received_.find(mark)) == std::string::npos) {
      if (!receive()) return std::nullopt;
    }
    return take(at + mark.size());
  }

  std::optional<std::string> take(size_t size) {
    while (received_.size() < size) {
      if (!receive()) return std::nullopt;
    }
    std::string taken = received_.substr(0, size);
    received_.erase(0, size);
    return taken;
  }

  UniqueFd fd_;
  std::string received_;
};

}  // namespace millrace::http
