// Which web pages of other origins may read this server's answers (Fetch standard, CORS protocol).
// Immutable, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/request.h"
#include "http/response.h"

namespace millrace::http {

class CorsPolicy {
 public:
  // No origin is allowed: browsers keep all others out.
  CorsPolicy() = default;
  // "https://example.org", or "*" for all.
  explicit CorsPolicy(std::vector<std::string> allowed_origins)
      : allowed_origins_(std::move(allowed_origins)) {}

  // What a response to `request` says about its origin; empty for requests that name none, or one
  // that is not allowed.
  std::vector<Header> headers_for(const Request& request) const;

  // What the answer to a preflight adds; empty if `request` is none.
  static std::vector<Header> preflight_headers(const Request& request, std::string_view methods);

 private:
  std::vector<std::string> allowed_origins_;
};

}  // namespace millrace::http
