#include "http/cors.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "http/characters.h"

namespace millrace::http {
namespace {

bool is_scheme(std::string_view text) {
  return !text.empty() && is_alpha(text.front()) && std::ranges::all_of(text, [](char c) {
    return is_alpha(c) || is_digit(c) || c == '+' || c == '-' || c == '.';
  });
}

// Names beyond ASCII are Punycode in Origin.
bool is_host(std::string_view text) {
  if (text.starts_with('[') && text.ends_with(']')) {
    text = text.substr(1, text.size() - 2);
    return text.find(':') != std::string_view::npos && std::ranges::all_of(text, [](char c) {
             return hex_value(c) >= 0 || c == ':' || c == '.';
           });
  }
  return !text.empty() && std::ranges::all_of(text, [](char c) {
    return is_alpha(c) || is_digit(c) || c == '-' || c == '.' || c == '_';
  });
}

// ":" and the number.
bool is_port(std::string_view text) {
  uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data() + 1, end, port);
  return ec == std::errc() && stop == end;
}

}  // namespace

Result<std::string> parse_origin(std::string_view text) {
  constexpr std::string_view kSlashes = "://";
  std::string origin(text);
  std::ranges::transform(origin, origin.begin(), to_lower);
  if (origin == "*") return origin;
  const std::string_view all = origin;
  const size_t slashes = all.find(kSlashes);
  const std::string_view scheme = all.substr(0, slashes);
  const size_t host_begin = std::min(all.size(), scheme.size() + kSlashes.size());
  const size_t colon = all.find(':', std::max(host_begin, all.rfind(']') + 1));
  const std::string_view host = all.substr(host_begin, std::min(colon, all.size()) - host_begin);
  const std::string_view port = all.substr(std::min(colon, all.size()));
  const bool is_valid = slashes != std::string_view::npos && is_scheme(scheme) && is_host(host) &&
                        (port.empty() || is_port(port));
  if (!is_valid) {
    return invalid_argument(fmt::format("must be * or scheme://host[:port], got '{}'", text));
  }
  const bool is_own_port =
      (scheme == "http" && port == ":80") || (scheme == "https" && port == ":443");
  if (is_own_port) origin.resize(origin.size() - port.size());
  return origin;
}

bool CorsPolicy::allows(std::string_view origin) const {
  return std::ranges::find(allowed_origins_, origin) != allowed_origins_.end();
}

std::vector<Header> CorsPolicy::headers_for(const Request& request) const {
  if (allowed_origins_.empty()) return {};
  const std::optional<std::string_view> origin = request.header("origin");
  if (!origin) return {};
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

// Images and the like name no origin; Fetch Metadata (W3C) tells of them where the server's own
// address is HTTPS or this machine.
bool CorsPolicy::is_foreign(const Request& request) const {
  const std::optional<std::string_view> site = request.header("sec-fetch-site");
  if (site && (*site == "same-origin" || *site == "none")) return false;
  const std::optional<std::string_view> origin = request.header("origin");
  if (allows("*") || (origin && allows(*origin))) return false;
  if (site) return true;
  if (!origin) return false;
  const size_t slashes = origin->find("://");
  return slashes == std::string_view::npos || origin->substr(slashes + 3) != request.header("host");
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
