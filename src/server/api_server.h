// The OpenAI-compatible server: HTTP in, text out. It listens while the model still loads, so that
// probes see what it does; it serves once it is given the model, and ends by draining.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "http/limits.h"
#include "http/server.h"
#include "server/local_model.h"
#include "server/serving.h"

namespace millrace {

struct ApiServerOptions {
  std::vector<std::string> addresses;  // as http::HttpServerOptions
  std::optional<http::TlsFiles> tls;
  http::HttpLimits limits;
  size_t num_io_threads = 1;
  std::vector<std::string> api_keys;         // none: everyone is let in
  std::vector<std::string> allowed_origins;  // of web pages: see http::CorsPolicy
  std::string version;
  Duration stall_timeout = std::chrono::seconds(60);  // an engine whose step takes longer is stuck
};

// Thread-safe, but not to be called by a handler.
class ApiServer {
 public:
  // Listens when it returns; every request but probes is answered with 503. `log` is borrowed.
  static Result<std::unique_ptr<ApiServer>> start(ApiServerOptions options, Log& log);
  ~ApiServer();  // cuts what is under way
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  // As they are bound: "127.0.0.1:8000", "unix:PATH".
  const std::vector<std::string>& addresses() const;

  // For the engine to call on its thread when the events of a step are delivered: they leave now.
  void on_step_end();

  // From now on requests are answered. `model`: its engine calls on_step_end(). Called once.
  void serve(LocalModel model, ServingOptions options);

  // New requests are refused with 503, probes say not ready; returns when no request is under way
  // any more. Those that still are at `deadline`, or once `is_hurried` says so, are told that the
  // server stops. Then every connection is closed.
  void drain(TimePoint deadline, const std::function<bool()>& is_hurried);

 private:
  struct Impl;
  explicit ApiServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace
