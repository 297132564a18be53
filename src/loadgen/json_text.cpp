#include "loadgen/json_text.h"

#include <algorithm>

#include "http/characters.h"
#include "text/unicode.h"

namespace millrace::bench {
namespace {

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
