// For tests: a server that gives the answers it was told, to speak as other servers do.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "http/server.h"
#include "loadgen/target.h"

namespace millrace::bench {

inline Target target_of(const std::string& url) {
  const Result<http::BaseUrl> parsed = http::parse_base_url(url);
  EXPECT_TRUE(parsed.ok()) << url;
  return {.url = *parsed};
}

class ScriptedServer {
 public:
  using Answer = std::function<http::Response(const http::Request&)>;

  ScriptedServer() {
    http::HttpServerOptions options{.addresses = {"127.0.0.1:0"}};
    for (const char* method : {"GET", "POST"}) {
      const http::Handler handler = [this](const std::shared_ptr<http::Exchange>& exchange) {
        exchange->respond(answer(exchange->request()));
      };
      EXPECT_TRUE(
          options.router.add({.method = method, .pattern = "/{path...}", .handler = handler}).ok()
      );
    }
    auto server = http::HttpServer::start(std::move(options));
    EXPECT_TRUE(server.ok());
    server_ = std::move(*server);
  }

  // `place`: "GET /metrics". What is not told is a 404.
  void on(const std::string& place, Answer answer) {
    const std::lock_guard lock(mutex_);
    answers_[place] = std::move(answer);
  }
  void on(const std::string& place, int status, const std::string& body) {
    on(place, [status, body](const http::Request&) { return http::json_response(status, body); });
  }
  int num_asked(const std::string& place) {
    const std::lock_guard lock(mutex_);
    return num_asked_[place];
  }

  std::string url() const { return "http://" + server_->addresses().front(); }
  Target target() const { return target_of(url()); }

 private:
  http::Response answer(const http::Request& request) {
    const std::string place = std::string(request.method()) + " " + request.path();
    const std::lock_guard lock(mutex_);
    ++num_asked_[place];
    const auto found = answers_.find(place);
    if (found == answers_.end()) return http::json_response(404, R"({"detail":"Not Found"})");
    return found->second(request);
  }

  std::mutex mutex_;  // guards what follows
  std::map<std::string, Answer> answers_;
  std::map<std::string, int> num_asked_;
  std::unique_ptr<http::HttpServer> server_;
};

}  // namespace millrace::bench
