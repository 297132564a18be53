#include "http/status.h"

#include <algorithm>
#include <array>
#include <utility>

namespace millrace::http {
namespace {

constexpr std::array<std::pair<int, std::string_view>, 38> kPhrases = {{
    {100, "Continue"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {425, "Too Early"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
}};

}  // namespace

std::string_view reason_phrase(int status) {
  const auto* found = std::find_if(kPhrases.begin(), kPhrases.end(), [&](const auto& entry) {
    return entry.first == status;
  });
  return found == kPhrases.end() ? "Unknown" : found->second;
}

Refusal refuse(int status, std::string_view code, std::string_view message) {
  return {.status = status, .code = std::string(code), .message = std::string(message)};
}

Refusal refuse_malformed(std::string_view message) {
  return refuse(400, "malformed_request", message);
}

Refusal refuse_slow() {
  return refuse(408, "request_timeout", "the request did not arrive in time");
}

}  // namespace millrace::http
