// For tests: a server for RawPeer and HttpClient to talk to.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/server.h"
#include "http/test_peer.h"

namespace millrace::http {

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
