#include "server/protocol/json_text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <iterator>

#include "text/unicode.h"

namespace millrace {
namespace {

// Whether a byte goes out as it is.
constexpr std::array<bool, 256> plain_bytes() {
  std::array<bool, 256> plain = {};
  for (size_t byte = 0x20; byte < 0x80; ++byte) plain[byte] = byte != '"' && byte != '\\';
  return plain;
}
constexpr std::array<bool, 256> kIsPlain = plain_bytes();

// Whether one of the eight bytes is not plain: the high bit of a byte shows that it lies below
// 0x20, is a quote or a backslash (a subtraction borrowed), or is no ASCII. A borrow may mark the
// byte above too, so the answer holds for all eight together only.
bool all_plain(uint64_t bytes) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  const uint64_t quotes = bytes ^ (kOnes * '"');
  const uint64_t backslashes = bytes ^ (kOnes * '\\');
  const uint64_t marks = (bytes - kOnes * 0x20) | (quotes - kOnes) | (backslashes - kOnes) | bytes;
  return (marks & (kOnes * 0x80)) == 0;
}

// The first byte from `pos` on that is not plain, or the end.
size_t end_of_plain(std::string_view text, size_t pos) {
  while (pos + 8 <= text.size()) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, text.data() + pos, sizeof bytes);
    if (!all_plain(bytes)) break;
    pos += 8;
  }
  while (pos < text.size() && kIsPlain[static_cast<uint8_t>(text[pos])]) ++pos;
  return pos;
}

void append_escape(char character, std::string& out) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  switch (character) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  const auto byte = static_cast<uint8_t>(character);
  out += "\\u00";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 0xF];
}

template <class Number>
void append_digits(Number value, std::string& out) {
  std::array<char, 32> digits;  // 24 characters are the longest double
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

}  // namespace

void append_json_escaped(std::string_view text, std::string& out) {
  size_t appended = 0;
  size_t pos = end_of_plain(text, 0);
  while (pos < text.size()) {
    if (static_cast<uint8_t>(text[pos]) < 0x80) {
      out.append(text.substr(appended, pos - appended));
      append_escape(text[pos], out);
      appended = ++pos;
    } else {
      const Utf8Sequence sequence = next_utf8_sequence(text.substr(pos));
      if (sequence.kind != Utf8Sequence::Kind::kComplete) {
        out.append(text.substr(appended, pos - appended));
        out += kReplacementCharacter;
        appended = pos + sequence.num_bytes;
      }
      pos += sequence.num_bytes;
    }
    pos = end_of_plain(text, pos);
  }
  out.append(text.substr(appended));
}

void append_json_string(std::string_view text, std::string& out) {
  out += '"';
  append_json_escaped(text, out);
  out += '"';
}

void append_json_integer(int64_t value, std::string& out) {
  append_digits(value, out);
}

// std::to_chars would write out all digits of a large number.
void append_json_number(float value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
  } else {
    fmt::format_to(std::back_inserter(out), "{}", value);
  }
}

void append_json_number(double value, std::string& out) {
  if (!std::isfinite(value)) {
    out += "null";
  } else {
    fmt::format_to(std::back_inserter(out), "{}", value);
  }
}

void append_json_logprob(float value, std::string& out) {
  constexpr float kLowest = -9999.0F;
  append_digits(value > kLowest ? value : kLowest, out);  // NaN compares false
}

}  // namespace millrace
