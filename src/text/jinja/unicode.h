// The parts of Unicode that Python's str methods use, over UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace millrace::jinja {

inline bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) == 0x80;
}

// The end of the code point that starts at `begin`. REQUIRES: begin < text.size().
inline size_t code_point_end(std::string_view text, size_t begin) {
  size_t end = begin + 1;
  while (end < text.size() && is_continuation(text[end])) ++end;
  return end;
}

// U+FFFD where the bytes are no well-formed code point.
char32_t decode_utf8(std::string_view code_point);
// Writes at most 4 bytes and returns how many.
size_t encode_utf8(char32_t code_point, char* out);
std::string to_utf8(char32_t code_point);
bool is_valid_utf8(std::string_view text);

// As Python's str.isspace() and the \s of its regular expressions.
bool is_space(char32_t code_point);
bool is_alpha(char32_t code_point);
bool is_decimal(char32_t code_point);
bool is_digit(char32_t code_point);    // decimals, and digits such as superscripts
bool is_numeric(char32_t code_point);  // digits, and numbers such as fractions
bool is_upper(char32_t code_point);
bool is_lower(char32_t code_point);
bool is_title(char32_t code_point);
bool is_printable(char32_t code_point);  // what repr() shows as itself
bool is_word(char32_t code_point);       // the \w of Python's regular expressions
bool is_identifier_start(char32_t code_point);
bool is_identifier_part(char32_t code_point);

// Full mappings: one code point may become up to three. Context (the final sigma) is the caller's.
std::u32string to_upper(char32_t code_point);
std::u32string to_lower(char32_t code_point);
std::u32string to_title(char32_t code_point);

}  // namespace millrace::jinja
