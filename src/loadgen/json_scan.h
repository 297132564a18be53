// The tokens of JSON (RFC 8259) that events are read by. Strict, but that control characters within
// strings are let through: no server sends them, and looking for them would cost every event.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace millrace::bench {

constexpr bool is_json_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Each takes a value's first byte, or what stands behind its opening quote or bracket, and gives
// where the value ends; nullptr: there is none.
const char* skip_string_inside(const char* at, const char* end);  // to the closing quote
const char* skip_number(const char* at, const char* end);
// Of numbers and commas up to the closing bracket; counts the numbers. nullptr: something else
// stands there, or it ends.
const char* skip_ids(const char* at, const char* end, int64_t& num_ids);

// Appends the text that the inside of a JSON string stands for, valid UTF-8 in any case.
// REQUIRES: `raw` is of a string that skip_string_inside() has passed.
void append_unescaped(std::string_view raw, std::string& out);

}  // namespace millrace::bench
