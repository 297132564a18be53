// For tests: a server on plain sockets that sends exactly the bytes it is told, at exact times, and
// notes when it did, by the clock of the same process.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "http/unique_fd.h"

namespace millrace::bench {

// One thing that the peer does for a request.
struct PeerStep {
  std::chrono::milliseconds delay{0};  // before it
  std::string bytes;
  bool closes = false;  // the connection, after the bytes
  bool resets = false;  // it, rudely
};
using PeerScript = std::vector<PeerStep>;

// What a request was, and when the peer did what.
struct PeerRequest {
  std::string head, body;
  size_t connection = 0;              // in the order of their coming
  TimePoint read;                     // the whole request
  std::vector<TimePoint> steps_sent;  // just before each step's bytes
};

class ScriptedPeer {
 public:
  // Answers the n-th request (in the order of their coming) with `script(n, request)`.
  using Answer = std::function<PeerScript(size_t number, const PeerRequest& request)>;

  // `greeting`: if not empty, sent at once to whoever connects, and nothing after it.
  explicit ScriptedPeer(Answer answer, std::string greeting = "")
      : answer_(std::move(answer)),
        greeting_(std::move(greeting)),
        listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        stop_(::eventfd(0, EFD_CLOEXEC)) {
    sockaddr_in name = {};
    name.sin_family = AF_INET;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof name;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&name), size), 0);
    EXPECT_EQ(::listen(listener_.get(), 1024), 0);
    ::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&name), &size);
    port_ = ntohs(name.sin_port);
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~ScriptedPeer() {
    stop();
    for (std::thread& thread : servers_) thread.join();
  }

  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }
  uint16_t port() const { return port_; }

  // Listens no more; what is open stays open until it is done.
  void stop_listening() {
    if (!acceptor_.joinable()) return;
    const uint64_t one = 1;
    EXPECT_EQ(::write(stop_.get(), &one, sizeof one), 8);
    acceptor_.join();
    listener_.reset();
  }
  // And everything ends.
  void stop() {
    is_stopping_ = true;
    stop_listening();
  }

  size_t num_connections() const { return num_connections_; }
  std::vector<PeerRequest> requests() {
    const std::lock_guard lock(mutex_);
    return {requests_.begin(), requests_.end()};
  }

 private:
  bool wait_readable(int fd) const {
    pollfd entries[2] = {{fd, POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    ::poll(entries, 2, -1);
    // Connections outlive the listener, but not stop().
    while (!is_stopping_ && entries[1].revents != 0 && entries[0].revents == 0) {
      if (::poll(entries, 1, 5) != 0) break;
    }
    return entries[0].revents != 0;
  }

  void accept_all() {
    while (true) {
      pollfd entries[2] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
      ::poll(entries, 2, -1);
      if (entries[1].revents != 0) return;
      const int fd = ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (fd < 0) continue;
      const int on = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      const size_t connection = num_connections_++;
      servers_.emplace_back([this, fd, connection] { serve(http::UniqueFd(fd), connection); });
    }
  }

  void serve(http::UniqueFd socket, size_t connection) {
    if (!greeting_.empty()) {
      ::send(socket.get(), greeting_.data(), greeting_.size(), MSG_NOSIGNAL);
      return;
    }
    std::string bytes;
    while (std::optional<PeerRequest> request = read_request(socket.get(), bytes)) {
      request->connection = connection;
      const PeerRequest copy = *request;
      PeerRequest* kept = nullptr;
      size_t number = 0;
      {
        const std::lock_guard lock(mutex_);
        number = requests_.size();
        requests_.push_back(std::move(*request));
        kept = &requests_.back();
      }
      if (!play(socket, answer_(number, copy), *kept)) return;
    }
  }

  bool play(http::UniqueFd& socket, const PeerScript& script, PeerRequest& request) {
    for (const PeerStep& step : script) {
      const TimePoint due = Clock::now() + step.delay;
      while (Clock::now() < due && !is_stopping_) {
        std::this_thread::sleep_for(std::min<Duration>(due - Clock::now(), kSlice));
      }
      if (is_stopping_) return false;
      {
        const std::lock_guard lock(mutex_);
        request.steps_sent.push_back(Clock::now());
      }
      const ssize_t size = ::send(socket.get(), step.bytes.data(), step.bytes.size(), MSG_NOSIGNAL);
      if (size < 0) return false;
      if (step.resets) {
        const linger no_time = {.l_onoff = 1, .l_linger = 0};
        ::setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &no_time, sizeof no_time);
      }
      if (step.resets || step.closes) return false;
    }
    return true;
  }

  std::optional<PeerRequest> read_request(int fd, std::string& bytes) const {
    constexpr std::string_view kLength = "content-length: ";
    while (true) {
      const size_t end = bytes.find("\r\n\r\n");
      if (end != std::string::npos) {
        size_t length = 0;
        const size_t field = bytes.find(kLength);
        if (field != std::string::npos) {
          const char* begin = bytes.data() + field + kLength.size();
          std::from_chars(begin, bytes.data() + bytes.size(), length);
        }
        if (bytes.size() >= end + 4 + length) {
          PeerRequest request{
              .head = bytes.substr(0, end),
              .body = bytes.substr(end + 4, length),
              .read = Clock::now(),
          };
          bytes.erase(0, end + 4 + length);
          return request;
        }
      }
      char buffer[16384];
      if (!wait_readable(fd)) return std::nullopt;
      const ssize_t size = ::recv(fd, buffer, sizeof buffer, 0);
      if (size <= 0) return std::nullopt;
      bytes.append(buffer, static_cast<size_t>(size));
    }
  }

  static constexpr std::chrono::milliseconds kSlice{20};

  Answer answer_;
  std::string greeting_;
  http::UniqueFd listener_;
  http::UniqueFd stop_;
  uint16_t port_ = 0;
  std::atomic<bool> is_stopping_ = false;
  std::atomic<size_t> num_connections_ = 0;
  std::thread acceptor_;
  std::list<std::thread> servers_;  // written by the acceptor alone until it has ended
  std::mutex mutex_;                // guards what follows
  std::list<PeerRequest> requests_;
};

}  // namespace millrace::bench
