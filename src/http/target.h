// The request target (RFC 9112, 3.2), reduced to one canonical path, so that routing and
// authorization can never see two different ones.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "http/status.h"

namespace millrace::http {

struct Target {
  // Percent-decoded, starts with '/', valid UTF-8 without control characters, and without empty,
  // "." or ".." segments before its last one. "*" for the asterisk-form and for CONNECT.
  std::string path;
  std::string query;  // as sent, without the '?'
};

// Accepts the origin-form, the absolute-form (its authority must be a valid host, and is not used),
// "*" for OPTIONS, and anything visible for CONNECT. 400: a byte that a URI may not hold, a bad
// percent escape, an encoded NUL or control character, '\' or '#', bytes that are not UTF-8.
// 404: "//", "." and ".." segments, encoded or not: nothing of ours is there, and nothing is
// rewritten.
std::variant<Target, Refusal> parse_target(std::string_view method, std::string_view target);

// host[:port] of RFC 3986 without user information. An empty host is valid, as RFC 9110, 7.2 asks.
bool is_valid_host(std::string_view host);

}  // namespace millrace::http
