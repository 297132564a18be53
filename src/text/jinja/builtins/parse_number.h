// Numbers from text, by the rules of Python's int() and float().
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace::jinja {

struct ParsedInteger {
  int64_t value = 0;
  bool overflows = false;  // a number, of more than 64 bits
};

// `base` is 0 or 2 to 36. nullopt: not a number.
std::optional<ParsedInteger> parse_integer(std::string_view text, int64_t base);
std::optional<double> parse_float(std::string_view text);

}  // namespace millrace::jinja
