// Appends JSON to a string, piece by piece: for answers, whose shape is known and whose speed
// counts. What is appended is always valid UTF-8 and holds no raw line break. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace {

// What stands between the quotes of a JSON string (RFC 8259, 7). Each maximal ill-formed part of
// `text` becomes U+FFFD. Characters beyond ASCII stay as they are.
void append_json_escaped(std::string_view text, std::string& out);

// The same with its quotes.
void append_json_string(std::string_view text, std::string& out);

void append_json_integer(int64_t value, std::string& out);

// In as few digits as give the same number back: 0.1f is written 0.1. What JSON cannot say (an
// infinity, NaN) becomes null.
void append_json_number(float value, std::string& out);
void append_json_number(double value, std::string& out);

// Clients expect a number here: -infinity, and whatever lies below, becomes -9999 as in OpenAI's
// and vLLM's answers; NaN too.
void append_json_logprob(float value, std::string& out);

}  // namespace millrace
