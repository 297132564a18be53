#include <algorithm>
#include <charconv>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "server/generation_call.h"
#include "server/protocol/abort_request.h"
#include "server/protocol/api_error.h"
#include "server/protocol/chat_request.h"
#include "server/protocol/completion_request.h"
#include "server/protocol/native_request.h"
#include "server/refusal_log.h"
#include "server/routes.h"

namespace millrace {
namespace {

using ExchangePtr = std::shared_ptr<http::Exchange>;
using RequestReader = Result<GenerationRequest> (*)(std::string_view, const RequestContext&);

// A body up to this size is read, and its prompt tokenized, in some ten microseconds: on the I/O
// thread, without waking another. Chats are rendered by a text worker in any case.
constexpr size_t kShortBodyBytes = 2048;

void refuse(const Serving& serving, http::Exchange& exchange, const Error& error) {
  const ApiError api_error = to_api_error(error);
  if (serving.logs_requests) log_refusal(serving.log, exchange.request(), api_error);
  exchange.respond(to_response(api_error));
}

// The time limit that a client's proxy states: seconds, in X-Request-Timeout.
Result<std::optional<double>> timeout_of(const http::Request& request) {
  const std::optional<std::string_view> header = request.header("x-request-timeout");
  if (!header) return std::optional<double>();
  double seconds = 0.0;
  const auto [end, ec] = std::from_chars(header->data(), header->data() + header->size(), seconds);
  if (ec != std::errc() || end != header->data() + header->size() || !(seconds > 0.0) ||
      seconds > kTimeoutMax_s) {
    return invalid_argument(
        "the header X-Request-Timeout must be a number of seconds above 0 and at most 86400",
        "X-Request-Timeout"
    );
  }
  return std::optional<double>(seconds);
}

// Reads the body and starts the call, or has a text worker start it. Where this one has waited for
// a text worker, the time may be up: a short one's the engine sees.
void begin(
    ApiState& state,
    const ExchangePtr& exchange,
    RequestReader read,
    bool is_short,
    TimePoint arrival
) {
  Serving& serving = *state.serving();
  const Result<std::optional<double>> timeout_s = timeout_of(exchange->request());
  if (!timeout_s) return refuse(serving, *exchange, timeout_s.error());
  if (!is_short && *timeout_s && to_seconds(Clock::now() - arrival) >= **timeout_s) {
    return refuse(serving, *exchange, deadline_passed());
  }
  Result<GenerationRequest> request = read(exchange->request().body, serving.request_context);
  if (!request) return refuse(serving, *exchange, request.error());
  request->tenant =
      state.keys().tenant_of(exchange->request().header("authorization").value_or(""));
  // The shorter of the two counts.
  if (*timeout_s) {
    std::optional<double>& limit_s = request->fields.timeout_s;
    limit_s = std::min(limit_s.value_or(**timeout_s), **timeout_s);
  }
  exchange->request().body = {};
  const bool starts_here = !is_short || request->api != Api::kChat;
  auto call = GenerationCall::make(serving.services(), *std::move(request), exchange, arrival);
  if (starts_here) return call->start();
  if (!serving.workers.try_post([call] { call->start(); })) {
    refuse(serving, *exchange, overloaded());
  }
}

// Of what a request may make fail, memory alone shows as an exception. It fails this request, and
// no other; what start() does on another thread, it sees to itself.
void begin_if_memory_lasts(
    ApiState& state,
    const ExchangePtr& exchange,
    RequestReader read,
    bool is_short,
    TimePoint arrival
) {
  try {
    begin(state, exchange, read, is_short, arrival);
  } catch (const std::bad_alloc&) {
    refuse(*state.serving(), *exchange, out_of_memory());
  }
}

// Whether the body is JSON by its header, which no page of another origin may say without asking.
// If not, the exchange is answered.
bool is_json(const Serving& serving, http::Exchange& exchange) {
  const auto refusal = http::check_json_content_type(exchange.request());
  if (!refusal) return true;
  if (serving.logs_requests) log_refusal(serving.log, exchange.request(), to_api_error(*refusal));
  exchange.respond(render_refusal(*refusal));
  return false;
}

void generate(ApiState& state, const ExchangePtr& exchange, RequestReader read) {
  const TimePoint arrival = Clock::now();
  Serving& serving = *state.serving();
  if (!is_json(serving, *exchange)) return;
  const size_t num_body_bytes = exchange->request().body.size();
  if (num_body_bytes <= kShortBodyBytes) {
    return begin_if_memory_lasts(state, exchange, read, true, arrival);
  }
  const auto task = [&state, exchange, read, arrival] {
    if (exchange->is_client_gone()) return;
    begin_if_memory_lasts(state, exchange, read, false, arrival);
  };
  const bool is_posted = serving.workers.try_post(task, num_body_bytes);
  if (!is_posted) refuse(serving, *exchange, overloaded());
}

void abort(ApiState& state, const ExchangePtr& exchange) {
  const Serving& serving = *state.serving();
  if (!is_json(serving, *exchange)) return;
  const Result<AbortRequest> request = read_abort_request(exchange->request().body);
  if (!request) return refuse(serving, *exchange, request.error());
  const CallRegistry& calls = serving.calls;
  const auto found = request->abort_all ? calls.all() : calls.find(request->request_id);
  if (found.empty() && !request->abort_all) {
    return refuse(serving, *exchange, not_found("no request of this id is under way", "rid"));
  }
  for (const auto& call : found) call->abort();
  exchange->respond(http::json_response(200, "{\"success\":true}"));
}

struct Endpoint {
  std::string_view pattern;
  RequestReader read;
};

constexpr Endpoint kEndpoints[] = {
    {"/v1/completions", read_completion_request},
    {"/v1/chat/completions", read_chat_request},
    {"/generate", read_native_request},
};

}  // namespace

bool generates(const http::Route& route) {
  return std::ranges::find(kEndpoints, route.pattern, &Endpoint::pattern) != std::end(kEndpoints);
}

Result<void> add_generation_routes(http::Router& router, ApiState& state) {
  for (const Endpoint& endpoint : kEndpoints) {
    const auto handler = [&state, read = endpoint.read](const ExchangePtr& exchange) {
      generate(state, exchange, read);
    };
    const std::string pattern(endpoint.pattern);
    if (auto added = router.add({.method = "POST", .pattern = pattern, .handler = handler});
        !added) {
      return added;
    }
  }
  const auto handler = [&state](const ExchangePtr& exchange) { abort(state, exchange); };
  return router.add({.method = "POST", .pattern = "/abort_request", .handler = handler});
}

}  // namespace millrace
