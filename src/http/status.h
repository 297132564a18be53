// Status codes, and why a request is refused before any handler sees it.
#pragma once

#include <string>
#include <string_view>

namespace millrace::http {

// "Not Found" for 404; "Unknown" for a code that RFC 9110 and RFC 6585 do not name.
std::string_view reason_phrase(int status);

// What the error renderer turns into a response. `code` is a stable word for programs
// (`malformed_request`), `message` one line for people without a full stop at its end; neither
// holds bytes of the request.
struct Refusal {
  int status = 400;
  std::string code;
  std::string message;
  // false: the peer does not speak HTTP at all; close without a word.
  bool is_answered = true;
};

[[nodiscard]] Refusal refuse(int status, std::string_view code, std::string_view message);
[[nodiscard]] Refusal refuse_malformed(std::string_view message);
[[nodiscard]] Refusal refuse_slow();

}  // namespace millrace::http
