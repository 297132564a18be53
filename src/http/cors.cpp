#include "http/cors.h"

#include <algorithm>
#include <optional>

namespace millrace::http {

std::vector<Header> CorsPolicy::headers_for(const Request& request) const {
  if (allowed_origins_.empty()) return {};
  const std::optional<std::string_view> origin = request.header("origin");
  if (!origin) return {};
  const auto allows = [&](std::string_view allowed) {
    return std::ranges::find(allowed_origins_, allowed) != allowed_origins_.end();
  };
  const std::string exposed = "x-request-id";
  if (allows("*")) {
    return {{"access-control-allow-origin", "*"}, {"access-control-expose-headers", exposed}};
  }
  if (!allows(*origin)) return {};
  return {
      {"access-control-allow-origin", std::string(*origin)},
      {"access-control-expose-headers", exposed},
      {"vary", "Origin"},
  };
}

std::vector<Header> CorsPolicy::preflight_headers(
    const Request& request, std::string_view methods
) {
  if (!request.header("access-control-request-method")) return {};
  std::vector<Header> headers = {
      {"access-control-allow-methods", std::string(methods)},
      {"access-control-max-age", "600"},
  };
  // What a page may send is its own business: the server reads what it knows.
  if (const auto names = request.header("access-control-request-headers")) {
    headers.push_back({"access-control-allow-headers", std::string(*names)});
  }
  return headers;
}

}  // namespace millrace::http
