// Which web pages of other origins may read this server's answers (Fetch standard, CORS protocol).
// Immutable, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "http/request.h"
#include "http/response.h"

namespace millrace::http {

// "*", or scheme://host[:port] as browsers write it in Origin: in lower case, without the scheme's
// own port. The error completes the name of where `text` comes from.
Result<std::string> parse_origin(std::string_view text);

class CorsPolicy {
 public:
  // No origin is allowed: browsers keep all others out.
  CorsPolicy() = default;
  // As parse_origin() gives them.
  explicit CorsPolicy(std::vector<std::string> allowed_origins)
      : allowed_origins_(std::move(allowed_origins)) {}

  // What a response to `request` says about its origin; empty for requests that name none, or one
  // that is not allowed.
  std::vector<Header> headers_for(const Request& request) const;

  // Whether a browser sent `request` for a page that is neither of this server nor of an allowed
  // origin. Of such pages preflights keep out what is JSON, but no simple GET or POST.
  bool is_foreign(const Request& request) const;

  // What the answer to a preflight adds; empty if `request` is none.
  static std::vector<Header> preflight_headers(const Request& request, std::string_view methods);

 private:
  bool allows(std::string_view origin) const;

  std::vector<std::string> allowed_origins_;
};

}  // namespace millrace::http
