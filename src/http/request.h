// A whole request, as handlers get it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/request_head.h"

namespace millrace::http {

struct Request {
  RequestHead head;
  std::string body;  // decompressed
  // The client's X-Request-Id if it is 1 to 128 characters of [A-Za-z0-9._-], else generated.
  std::string id;
  std::string remote_address;  // "127.0.0.1:40000", "[::1]:40000", or "unix"
  // What the names in the route's pattern matched.
  std::vector<std::pair<std::string, std::string>> path_values;

  std::string_view method() const { return head.method(); }
  const std::string& path() const { return head.path(); }
  std::optional<std::string_view> header(std::string_view name) const { return head.header(name); }

  // The value of `name` in the pattern ("{name}"); nullopt if the pattern has no such name.
  std::optional<std::string_view> path_value(std::string_view name) const {
    for (const auto& [key, value] : path_values) {
      if (key == name) return value;
    }
    return std::nullopt;
  }
};

// Whether a client may choose this as the id of its request.
bool is_valid_request_id(std::string_view id);

// For routes that take JSON: nullopt for "application/json" in UTF-8 (said or not), else 415.
std::optional<Refusal> check_json_content_type(const Request& request);

}  // namespace millrace::http
