#include "server/api_server.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "server/api_keys.h"
#include "server/api_state.h"
#include "server/protocol/api_error.h"
#include "server/refusal_log.h"
#include "server/routes.h"

namespace millrace {
namespace {

// How long connections get to take their last bytes once all requests are over.
constexpr std::chrono::seconds kLastBytesTimeout{2};
// How often the end of a drain is looked for: nobody waits for it but the process itself.
constexpr std::chrono::milliseconds kDrainPollInterval{10};

ApiError wrong_key() {
  return {
      .status = 401,
      .type = "invalid_request_error",
      .code = "invalid_api_key",
      .param = std::nullopt,
      .message = "the API key is missing or wrong: send 'Authorization: Bearer KEY'",
  };
}

ApiError not_serving(ServerPhase phase) {
  const bool is_starting = phase == ServerPhase::kStarting;
  return {
      .status = 503,
      .type = "server_error",
      .code = is_starting ? "server_starting" : "server_stopping",
      .param = std::nullopt,
      .message = is_starting ? "the model is still loading" : "the server is shutting down",
  };
}

// Who may use a route, and when. Public routes are those that tell of the server itself.
std::optional<ApiError> refusal_of(
    const ApiState& state, const http::Request& request, const http::Route& route
) {
  if (route.is_public) return std::nullopt;
  if (!state.keys().admit(request.header("authorization").value_or(""))) return wrong_key();
  const ServerPhase phase = state.phase();
  if (phase != ServerPhase::kServing) return not_serving(phase);
  return std::nullopt;
}

std::optional<http::Response> guard(
    const ApiState& state, const http::Request& request, const http::Route& route
) {
  const std::optional<ApiError> refusal = refusal_of(state, request, route);
  if (!refusal) return std::nullopt;
  const Serving* serving = state.serving();
  const bool is_logged = serving != nullptr && serving->logs_requests && generates(route);
  if (is_logged) log_refusal(serving->log, request, *refusal);
  http::Response response = to_response(*refusal);
  if (refusal->status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  return response;
}

}  // namespace

struct ApiServer::Impl {
  Impl(const ApiServerOptions& options, Log& log)
      : state(ApiKeys(options.api_keys), options.version, options.stall_timeout, log) {}

  ApiState state;
  std::atomic<http::HttpServer*> counted = nullptr;  // for handlers that come before `http` is set
  std::unique_ptr<http::HttpServer> http;            // last: its handlers use all of the above
};

Result<std::unique_ptr<ApiServer>> ApiServer::start(ApiServerOptions options, Log& log) {
  auto impl = std::make_unique<Impl>(options, log);
  Impl* shared = impl.get();
  http::HttpServerOptions http{
      .addresses = std::move(options.addresses),
      .tls = std::move(options.tls),
      .num_threads = options.num_io_threads,
      .limits = options.limits,
      .server_name = "millrace/" + options.version,
      .render_error = render_refusal,
      .guard = [shared](
                   const http::Request& request, const http::Route& route
               ) { return guard(shared->state, request, route); },
      .cors = http::CorsPolicy(std::move(options.allowed_origins)),
      .log = [&log](std::string_view line) { log.warning(line); },
  };
  const auto counters = [shared] {
    const http::HttpServer* server = shared->counted;
    return server != nullptr ? server->counters() : http::CountersSnapshot();
  };
  for (const Result<void>& added :
       {add_generation_routes(http.router, impl->state),
        add_text_routes(http.router, impl->state),
        add_info_routes(http.router, impl->state, counters)}) {
    if (!added) return added.error();
  }
  Result<std::unique_ptr<http::HttpServer>> server = http::HttpServer::start(std::move(http));
  if (!server) return server.error();
  impl->http = *std::move(server);
  impl->counted = impl->http.get();
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(impl)));
}

ApiServer::ApiServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

// In this order nobody is called who is gone: connections, then the engine with its sinks.
ApiServer::~ApiServer() {
  if (Serving* serving = impl_->state.serving())
    serving->model.engine->shutdown(ShutdownMode::kAbort);
  impl_->http->stop();
}

const std::vector<std::string>& ApiServer::addresses() const {
  return impl_->http->addresses();
}

void ApiServer::on_step_end() {
  impl_->state.wakes().send();
}

void ApiServer::serve(LocalModel model, ServingOptions options) {
  impl_->state.serve(std::make_unique<Serving>(
      std::move(model), std::move(options), impl_->state.wakes(), impl_->state.log()
  ));
}

void ApiServer::drain(TimePoint deadline, const std::function<bool()>& is_hurried) {
  impl_->state.begin_drain();
  if (Serving* serving = impl_->state.serving()) {
    Engine& engine = *serving->model.engine;
    std::atomic<bool> is_drained = false;
    std::thread waiter([&] {
      engine.shutdown(ShutdownMode::kDrain);
      is_drained = true;
    });
    while (!is_drained && Clock::now() < deadline && !is_hurried()) {
      std::this_thread::sleep_for(kDrainPollInterval);
    }
    engine.shutdown(ShutdownMode::kAbort);
    waiter.join();
    serving->workers.stop();
  }
  impl_->http->drain(Clock::now() + kLastBytesTimeout);
  impl_->http->stop();
}

}  // namespace millrace
