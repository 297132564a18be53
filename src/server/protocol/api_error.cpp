#include "server/protocol/api_error.h"

#include <array>
#include <utility>

#include "base/error_reason.h"
#include "base/json.h"
#include "text/unicode.h"

namespace millrace {
namespace {

constexpr size_t kMessageCharsMax = 600;
constexpr size_t kParamCharsMax = 200;
constexpr size_t kCodeCharsMax = 64;

// Reasons that waiting does not help against, whatever resource was short.
constexpr std::array<std::string_view, 2> kReasonsOfTheRequest = {
    error_reason::kContextLengthExceeded,
    error_reason::kTemplateRefused,
};

struct Wording {
  int status = 500;
  std::string_view code;  // where the error has no reason of its own
};

Wording wording_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument:
      return {400, error_reason::kInvalidValue};
    case ErrorCode::kNotFound:
      return {404, "not_found"};
    case ErrorCode::kUnsupported:
      return {400, error_reason::kUnsupported};
    case ErrorCode::kResourceExhausted:
      for (const std::string_view reason : kReasonsOfTheRequest) {
        if (error.reason == reason) return {400, reason};
      }
      if (error.reason == error_reason::kRateLimit) return {429, error_reason::kRateLimit};
      return {503, "server_overloaded"};
    case ErrorCode::kDeadlineExceeded:
      return {504, "deadline_exceeded"};
    case ErrorCode::kCancelled:
      return {503, "server_shutting_down"};
    case ErrorCode::kInternal:
      break;
  }
  return {500, "internal_error"};
}

// OpenAI's types: a wrong key, path or model is an invalid request too. Clients tell errors apart
// by status and code.
std::string_view type_of(int status) {
  if (status == 403) return "permission_error";
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

// At most `num_chars_max` characters of the text as one line of valid UTF-8: what stands for no
// character becomes U+FFFD, and control characters, which could forge a log line, become spaces.
std::string one_line(std::string_view text, size_t num_chars_max) {
  std::string line;
  size_t num_chars = 0;
  while (!text.empty()) {
    if (num_chars++ == num_chars_max) return line + "...";
    const Utf8Sequence next = next_utf8_sequence(text);
    const std::string_view bytes = text.substr(0, next.num_bytes);
    text.remove_prefix(next.num_bytes);
    if (next.kind != Utf8Sequence::Kind::kComplete) {
      line += kReplacementCharacter;
      continue;
    }
    const char32_t c = decode_code_point(bytes, 0).value;
    const bool is_control = c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029;
    line += is_control ? " " : bytes;
  }
  return line;
}

json::value text_or_null(const std::string& text, size_t num_chars_max) {
  return text.empty() ? json::value(nullptr) : json::value(one_line(text, num_chars_max));
}

}  // namespace

ApiError to_api_error(const Error& error) {
  const Wording wording = wording_of(error);
  ApiError result{
      .status = wording.status,
      .type = std::string(type_of(wording.status)),
      .code = std::string(error.reason.empty() ? wording.code : error.reason),
      .message = error.message,
      .retry_after = error.retry_after.value_or(std::chrono::seconds(1)),
  };
  if (error.code == ErrorCode::kInternal) {
    result.code = wording.code;
    result.message = "the server failed to process the request";
  } else if (!error.where.empty()) {
    result.param = error.where;
  }
  return result;
}

std::string to_json(const ApiError& error) {
  const json::value body = {
      {"error",
       {{"message", one_line(error.message, kMessageCharsMax)},
        {"type", error.type},
        {"param", text_or_null(error.param.value_or(""), kParamCharsMax)},
        {"code", text_or_null(error.code, kCodeCharsMax)}}},
  };
  return json::serialize(body);
}

http::Response to_response(const ApiError& error) {
  http::Response response = http::json_response(error.status, to_json(error));
  const bool may_pass = error.status == 429 || error.status == 503;
  if (may_pass) {
    response.headers.push_back({"retry-after", std::to_string(error.retry_after.count())});
  }
  return response;
}

ApiError to_api_error(const http::Refusal& refusal) {
  return {
      .status = refusal.status,
      .type = std::string(type_of(refusal.status)),
      .code = refusal.code,
      .param = std::nullopt,
      .message = refusal.message,
  };
}

Error out_of_memory() {
  return {ErrorCode::kResourceExhausted, "out of memory"};
}

http::Response render_refusal(const http::Refusal& refusal) {
  // The connection adds what belongs to the protocol, retry-after too.
  return http::json_response(refusal.status, to_json(to_api_error(refusal)));
}

}  // namespace millrace
