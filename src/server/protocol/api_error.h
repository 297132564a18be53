// Errors as OpenAI's API words them: an HTTP status and {"error": {message, type, param, code}}.
// The one place where the program's errors become a client's.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/result.h"
#include "http/response.h"
#include "http/status.h"

namespace millrace {

struct ApiError {
  int status = 400;
  std::string type;                     // "invalid_request_error", "server_error", ...
  std::string code;                     // a stable word: "context_length_exceeded"
  std::optional<std::string> param;     // JSON path of what is wrong
  std::string message;                  // one sentence without a full stop at its end
  std::chrono::seconds retry_after{1};  // with 429 and 503: when it may be worth another try
};

// `reason` becomes the code where there is one, `where` the param. Internal errors keep their
// message to themselves: it may tell of the machine.
ApiError to_api_error(const Error& error);
// The same of what the HTTP layer refuses.
ApiError to_api_error(const http::Refusal& refusal);

// {"error":{"message":...,"type":...,"param":...,"code":...}}; the message cut to a sane length.
std::string to_json(const ApiError& error);

// With Retry-After where it is a matter of time.
http::Response to_response(const ApiError& error);

// What is said where there was no memory for a request.
Error out_of_memory();

// How the HTTP layer's own refusals look: http::HttpServerOptions::render_error.
http::Response render_refusal(const http::Refusal& refusal);

}  // namespace millrace
