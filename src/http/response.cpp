#include "http/response.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "http/characters.h"
#include "http/status.h"

namespace millrace::http {
namespace {

constexpr std::array<std::string_view, 5> kFramingFields = {
    "connection",
    "content-length",
    "date",
    "transfer-encoding",
    "keep-alive",
};

bool is_framing_field(std::string_view name) {
  return std::any_of(kFramingFields.begin(), kFramingFields.end(), [&](std::string_view field) {
    return equals_ignoring_case(field, name);
  });
}

void append_clean(std::string& out, std::string_view text) {
  const size_t begin = out.size();
  out.append(text);
  std::replace_if(
      out.begin() + static_cast<ptrdiff_t>(begin),
      out.end(),
      [](char c) { return c == '\r' || c == '\n' || c == '\0'; },
      ' '
  );
}

void append_field(std::string& out, std::string_view name, std::string_view value) {
  append_clean(out, name);
  out.append(": ");
  append_clean(out, value);
  out.append("\r\n");
}

void append_framing(std::string& out, const Response& response, const HeadContext& context) {
  switch (context.framing) {
    case ResponseFraming::kLength:
    case ResponseFraming::kHeadOnly:
      if (may_have_body(response.status)) {
        fmt::format_to(std::back_inserter(out), "content-length: {}\r\n", response.body.size());
      }
      break;
    case ResponseFraming::kChunked:
      out.append("transfer-encoding: chunked\r\n");
      break;
    case ResponseFraming::kUntilClose:
    case ResponseFraming::kHeadOfStream:
      break;
  }
  if (!context.is_keep_alive) {
    out.append("connection: close\r\n");
  } else if (context.is_http_1_0) {
    out.append("connection: keep-alive\r\n");
  }
}

}  // namespace

Response text_response(int status, std::string body) {
  return {
      .status = status,
      .headers = {{"content-type", "text/plain; charset=utf-8"}},
      .body = std::move(body),
  };
}

Response json_response(int status, std::string body) {
  return {
      .status = status,
      .headers = {{"content-type", "application/json"}},
      .body = std::move(body),
  };
}

bool may_have_body(int status) {
  return status >= 200 && status != 204 && status != 304;
}

void append_head(std::string& out, const Response& response, const HeadContext& context) {
  // HTTP/1.1 even to 1.0 clients: it names what the server speaks (RFC 9110, 6.2).
  fmt::format_to(
      std::back_inserter(out), "HTTP/1.1 {} {}\r\n", response.status, reason_phrase(response.status)
  );
  for (const Header& header : response.headers) {
    if (!is_framing_field(header.name)) append_field(out, header.name, header.value);
  }
  append_field(out, "x-request-id", context.request_id);
  append_field(out, "date", context.date);
  if (!context.server_name.empty()) append_field(out, "server", context.server_name);
  append_framing(out, response, context);
  out.append("\r\n");
}

}  // namespace millrace::http
