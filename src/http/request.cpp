#include "http/request.h"

#include <algorithm>

#include "http/characters.h"

namespace millrace::http {
namespace {

constexpr size_t kRequestIdBytesMax = 128;

std::string_view unquote(std::string_view text) {
  const bool is_quoted = text.size() >= 2 && text.starts_with('"') && text.ends_with('"');
  return is_quoted ? text.substr(1, text.size() - 2) : text;
}

}  // namespace

bool is_valid_request_id(std::string_view id) {
  return !id.empty() && id.size() <= kRequestIdBytesMax &&
         std::all_of(id.begin(), id.end(), [](char c) {
           return is_digit(c) || is_alpha(c) || c == '.' || c == '_' || c == '-';
         });
}

std::optional<Refusal> check_json_content_type(const Request& request) {
  std::string_view rest = request.header("content-type").value_or("");
  const size_t end = std::min(rest.find(';'), rest.size());
  if (!equals_ignoring_case(trim(rest.substr(0, end)), "application/json")) {
    return refuse(415, "unsupported_media_type", "the content type must be application/json");
  }
  rest.remove_prefix(end);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const size_t next = std::min(rest.find(';'), rest.size());
    const std::string_view parameter = trim(rest.substr(0, next));
    const size_t equals = std::min(parameter.find('='), parameter.size());
    const bool is_charset = equals_ignoring_case(trim(parameter.substr(0, equals)), "charset");
    const std::string_view value = parameter.substr(std::min(equals + 1, parameter.size()));
    if (is_charset && !equals_ignoring_case(unquote(trim(value)), "utf-8")) {
      return refuse(415, "unsupported_charset", "the charset must be utf-8");
    }
    rest.remove_prefix(next);
  }
  return std::nullopt;
}

}  // namespace millrace::http
