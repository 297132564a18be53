// Values of flags: lists, pairs, rates. Pure.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "command_line.h"

namespace millrace::bench {

// Always at least one part.
std::vector<std::string_view> split(std::string_view text, char separator);

// The whole text as one number.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "3000:150,500:1000": tokens of prompt and answer.
Result<std::vector<std::pair<int64_t, int64_t>>> parse_length_pairs(const std::string& text);
// "1,10,inf"
Result<std::vector<double>> parse_rates(const std::string& text);
// "1,2,4": at least one, all at least `least`.
Result<std::vector<int64_t>> parse_counts(const std::string& text, int64_t least = 1);
// "name=value"
Result<std::pair<std::string, std::string>> parse_assignment(const std::string& text);

// A switch that says no to something that is on.
void add_off_switch(
    CommandLine& line, const std::string& names, bool& variable, const std::string& help
);

}  // namespace millrace::bench
