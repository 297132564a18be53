// What a handler answers, and how it is put on the wire.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::http {

struct Header {
  std::string name;
  std::string value;
};

struct Response {
  int status = 200;
  std::vector<Header> headers;
  std::string body;
};

[[nodiscard]] Response text_response(int status, std::string body);
[[nodiscard]] Response json_response(int status, std::string body);

enum class ResponseFraming {
  kLength,       // a body of known length
  kChunked,      // HTTP/1.1 streams
  kUntilClose,   // HTTP/1.0 streams
  kHeadOnly,     // the answer to HEAD: the length is told, the body is not sent
  kHeadOfStream  // the answer to HEAD where a body would be streamed
};

// What the connection adds to a response.
struct HeadContext {
  std::string_view date;  // RFC 9110, 5.6.7
  std::string_view server_name;
  std::string_view request_id;
  ResponseFraming framing = ResponseFraming::kLength;
  bool is_keep_alive = true;
  bool is_http_1_0 = false;
};

// Appends status line, fields and the empty line. The fields that frame the message (connection,
// content-length, date, transfer-encoding) are the connection's: the handler's are left out. A CR,
// LF or NUL in a handler's field becomes a space, so that nothing can be injected.
void append_head(std::string& out, const Response& response, const HeadContext& context);

// 1xx, 204 and 304 never have a body.
bool may_have_body(int status);

}  // namespace millrace::http
