#include "loadgen/mock/mock_routes.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/metrics.h"

namespace millrace::bench {
namespace {

using Answer = http::Response (*)(MockState& state, const http::Request& request);

http::Response health(MockState&, const http::Request&) {
  return http::text_response(200, "");
}

http::Response version(MockState&, const http::Request&) {
  return http::json_response(200, R"({"version":"1"})");
}

http::Response models(MockState& state, const http::Request&) {
  const json::object model = {
      {"id", state.options().model},
      {"object", "model"},
      {"created", state.created_s()},
      {"owned_by", "millrace-mock"},
  };
  const json::object list = {{"object", "list"}, {"data", json::array{model}}};
  return http::json_response(200, to_json_text(list));
}

http::Response metrics(MockState& state, const http::Request&) {
  return {
      .status = 200,
      .headers = {{"content-type", std::string(MetricsWriter::kContentType)}},
      .body = state.metrics(),
  };
}

http::Response flush_cache(MockState& state, const http::Request&) {
  state.note_flush();
  return http::json_response(200, R"({"success":true})");
}

http::Response json_or_error(const Result<std::string>& body) {
  return body ? http::json_response(200, *body) : mock_error(body.error());
}

http::Response tokenize(MockState&, const http::Request& request) {
  return json_or_error(mock_tokenize(request.body));
}

http::Response detokenize(MockState&, const http::Request& request) {
  return json_or_error(mock_detokenize(request.body));
}

struct MockRoute {
  std::string_view method, path;
  Answer answer;
};

constexpr std::array<MockRoute, 8> kRoutes = {{
    {"GET", "/health", health},
    {"GET", "/version", version},
    {"GET", "/v1/models", models},
    {"GET", "/metrics", metrics},
    {"POST", "/tokenize", tokenize},
    {"POST", "/detokenize", detokenize},
    {"POST", "/flush_cache", flush_cache},
    {"POST", "/reset_prefix_cache", flush_cache},
}};

}  // namespace

std::optional<MockApi> mock_api_of(std::string_view path) {
  if (path == "/v1/completions") return MockApi::kCompletions;
  if (path == "/v1/chat/completions") return MockApi::kChat;
  if (path == "/generate") return MockApi::kGenerate;
  return std::nullopt;
}

std::optional<http::Response> check_mock_key(
    const MockOptions& options, const http::Request& request
) {
  if (options.api_key.empty() || request.path() == "/health") return std::nullopt;
  if (request.header("authorization") == "Bearer " + options.api_key) return std::nullopt;
  return mock_error(401, "expected the server's key as a bearer token", "authorization");
}

http::Response mock_error(int status, std::string_view message, std::string_view where) {
  return http::json_response(status, mock_error_body(status, message, where));
}

http::Response mock_error(const Error& error) {
  return mock_error(error.code == ErrorCode::kNotFound ? 404 : 400, error.message, error.where);
}

http::Response answer_mock_request(MockState& state, const http::Request& request) {
  bool is_there = mock_api_of(request.path()).has_value();
  for (const MockRoute& route : kRoutes) {
    if (route.path != request.path()) continue;
    is_there = true;
    if (route.method == request.method()) return route.answer(state, request);
  }
  if (!is_there) return mock_error(404, "there is nothing at this path");
  return mock_error(405, "this path is there for another method");
}

}  // namespace millrace::bench
