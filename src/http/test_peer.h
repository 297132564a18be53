// For tests: a client that sends exactly the bytes it is told, and a server that it talks to.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "http/characters.h"
#include "http/server.h"
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

// A server on a loopback port of its own with these routes:
//   GET /health (public, essential)  POST /echo: the body   GET /id: the request id
//   POST /json: 415 unless JSON      GET /hold: waits in take_held()
//   GET /key: needs "Bearer secret"  GET /throw: throws     GET /models/{name...}: the name
class TestServer {
 public:
  using Change = std::function<void(HttpServerOptions&)>;

  explicit TestServer(const Change& change = {}) {
    HttpServerOptions options;
    options.addresses = {"127.0.0.1:0"};
    add_routes(options.router);
    options.guard = [](const Request& request, const Route& route) -> std::optional<Response> {
      if (route.pattern != "/key" || request.header("authorization") == "Bearer secret") {
        return std::nullopt;
      }
      return text_response(401, "no\n");
    };
    options.log = [this](std::string_view line) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(line);
    };
    if (change) change(options);
    Result<std::unique_ptr<HttpServer>> server = HttpServer::start(std::move(options));
    EXPECT_TRUE(server.ok()) << (server ? "" : server.error().message);
    server_ = std::move(*server);
  }
  ~TestServer() {
    held_.clear();
    server_.reset();
  }

  HttpServer& server() { return *server_; }
  uint16_t port() { return *server_->port(); }
  CountersSnapshot counters() { return server_->counters(); }

  // The oldest exchange of GET /hold that was not taken yet; waits for it.
  std::shared_ptr<Exchange> take_held() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, kPatience, [&] { return !held_.empty(); })) {
      ADD_FAILURE() << "no request came";
      return nullptr;
    }
    std::shared_ptr<Exchange> exchange = std::move(held_.front());
    held_.erase(held_.begin());
    return exchange;
  }

  std::vector<std::string> lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

  // Whether a well-behaved client is served.
  bool is_well() {
    RawPeer peer(port());
    peer.send("GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    const std::optional<PeerResponse> response = peer.read_response();
    return response && response->status == 200;
  }

 private:
  void add_routes(Router& router) {
    const auto add = [&](Route route) { EXPECT_TRUE(router.add(std::move(route)).ok()); };
    const auto answer_ok = [](const std::shared_ptr<Exchange>& exchange) {
      exchange->respond(text_response(200, "ok\n"));
    };
    add(
        {.method = "GET",
         .pattern = "/health",
         .handler = answer_ok,
         .is_public = true,
         .is_essential = true}
    );
    add({.method = "GET", .pattern = "/key", .handler = answer_ok});
    add({.method = "POST", .pattern = "/echo", .handler = [](const auto& exchange) {
           exchange->respond(text_response(200, std::move(exchange->request().body)));
         }});
    add({.method = "GET", .pattern = "/id", .handler = [](const auto& exchange) {
           exchange->respond(text_response(200, exchange->request().id));
         }});
    add({.method = "GET", .pattern = "/models/{name...}", .handler = [](const auto& exchange) {
           const std::string_view name = *exchange->request().path_value("name");
           exchange->respond(text_response(200, std::string(name)));
         }});
    add({.method = "POST", .pattern = "/json", .handler = [](const auto& exchange) {
           const std::optional<Refusal> refusal = check_json_content_type(exchange->request());
           exchange->respond(text_response(refusal ? refusal->status : 200, ""));
         }});
    add({.method = "GET", .pattern = "/throw", .handler = [](const auto&) {
           throw std::runtime_error("on purpose");
         }});
    add({.method = "GET", .pattern = "/hold", .handler = [this](const auto& exchange) {
           const std::lock_guard lock(mutex_);
           held_.push_back(exchange);
           arrived_.notify_all();
         }});
  }

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<std::shared_ptr<Exchange>> held_;
  std::vector<std::string> lines_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace millrace::http
