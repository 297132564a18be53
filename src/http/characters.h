// The character classes of RFC 9110 and RFC 3986, as plain ASCII: no locale, no sign.
#pragma once

#include <algorithm>
#include <string_view>

namespace millrace::http {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_alpha(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
constexpr char to_lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// The value of a hexadecimal digit, or -1.
constexpr int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = to_lower(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// tchar of RFC 9110, 5.6.2: what methods and field names are made of.
constexpr bool is_token_char(char c) {
  return is_digit(c) || is_alpha(c) ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

// Visible ASCII.
constexpr bool is_visible(char c) {
  return c > 0x20 && c < 0x7f;
}

// What a field value may hold (RFC 9110, 5.5): visible ASCII, space, tab, and bytes of 0x80 up.
constexpr bool is_field_char(char c) {
  return is_visible(c) || c == ' ' || c == '\t' || static_cast<unsigned char>(c) >= 0x80;
}

// unreserved and sub-delims of RFC 3986: what names in an authority and in a path share.
constexpr bool is_name_char(char c) {
  return is_digit(c) || is_alpha(c) ||
         std::string_view("-._~!$&'()*+,;=").find(c) != std::string_view::npos;
}

constexpr bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return to_lower(x) == to_lower(y);
  });
}

// Without the spaces and tabs at both ends.
constexpr std::string_view trim(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

}  // namespace millrace::http
