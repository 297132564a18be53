#include "loadgen/json_scan.h"

#include <algorithm>
#include <cstring>

#include "http/characters.h"
#include "text/unicode.h"

namespace millrace::bench {
namespace {

// The length of the escape that starts at `at`; 0: it is none.
size_t escape_size(const char* at, const char* end) {
  if (end - at < 2) return 0;
  if (at[1] != 'u') return std::strchr("\"\\/bfnrt", at[1]) != nullptr && at[1] != '\0' ? 2 : 0;
  if (end - at < 6) return 0;
  for (int i = 2; i < 6; ++i) {
    if (http::hex_value(at[i]) < 0) return 0;
  }
  return 6;
}

char32_t hex4(std::string_view raw, size_t at) {
  char32_t value = 0;
  for (size_t i = at; i < at + 4 && i < raw.size(); ++i) {
    value = value * 16 + static_cast<char32_t>(std::max(0, http::hex_value(raw[i])));
  }
  return value;
}

// The escape at `at`, of which the size is added to it.
void append_escape(std::string_view raw, size_t& at, std::string& out) {
  constexpr std::string_view kShort = "bfnrt";
  constexpr std::string_view kMeaning = "\b\f\n\r\t";
  const char c = raw[at + 1];
  if (c != 'u') {
    const size_t which = kShort.find(c);
    out += which == kShort.npos ? c : kMeaning[which];
    at += 2;
    return;
  }
  char32_t code = hex4(raw, at + 2);
  at += 6;
  const bool is_high = code >= 0xD800 && code < 0xDC00;
  if (is_high && at + 6 <= raw.size() && raw[at] == '\\' && raw[at + 1] == 'u') {
    const char32_t low = hex4(raw, at + 2);
    if (low >= 0xDC00 && low < 0xE000) {
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
      at += 6;
    }
  }
  append_utf8(code >= 0xD800 && code < 0xE000 ? char32_t{0xFFFD} : code, out);
}

}  // namespace

const char* skip_string_inside(const char* at, const char* end) {
  while (at != end) {
    const auto* quote =
        static_cast<const char*>(std::memchr(at, '"', static_cast<size_t>(end - at)));
    if (quote == nullptr) return nullptr;
    const auto* escape =
        static_cast<const char*>(std::memchr(at, '\\', static_cast<size_t>(quote - at)));
    if (escape == nullptr) return quote;
    const size_t size = escape_size(escape, end);
    if (size == 0) return nullptr;
    at = escape + size;
  }
  return nullptr;
}

const char* skip_number(const char* at, const char* end) {
  const auto skip_digits = [&] {
    const char* begin = at;
    while (at != end && http::is_digit(*at)) ++at;
    return at != begin;
  };
  if (at != end && *at == '-') ++at;
  const bool is_zero = at != end && *at == '0';
  if (is_zero) ++at;
  if (!is_zero && !skip_digits()) return nullptr;
  if (at != end && *at == '.') {
    ++at;
    if (!skip_digits()) return nullptr;
  }
  if (at != end && (*at == 'e' || *at == 'E')) {
    ++at;
    if (at != end && (*at == '+' || *at == '-')) ++at;
    if (!skip_digits()) return nullptr;
  }
  return at;
}

const char* skip_ids(const char* at, const char* end, int64_t& num_ids) {
  const auto skip_space = [&] {
    while (at != end && is_json_space(*at)) ++at;
  };
  num_ids = 0;
  skip_space();
  if (at != end && *at == ']') return at;
  while (true) {
    skip_space();
    at = skip_number(at, end);
    if (at == nullptr) return nullptr;
    ++num_ids;
    skip_space();
    if (at == end) return nullptr;
    if (*at == ']') return at;
    if (*at != ',') return nullptr;
    ++at;
  }
}

void append_unescaped(std::string_view raw, std::string& out) {
  size_t at = 0;
  while (at < raw.size()) {
    const size_t escape = std::min(raw.find('\\', at), raw.size());
    append_utf8_lossy(raw.substr(at, escape - at), true, out);
    at = escape;
    if (at + 1 >= raw.size()) return;
    append_escape(raw, at, out);
  }
}

}  // namespace millrace::bench
