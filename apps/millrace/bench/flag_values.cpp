#include "bench/flag_values.h"

#include <fmt/format.h>

#include <limits>

namespace millrace::bench {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Result<std::vector<std::pair<int64_t, int64_t>>> parse_length_pairs(const std::string& text) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (const std::string_view word : split(text, ',')) {
    const std::vector<std::string_view> parts = split(word, ':');
    std::optional<int64_t> input;
    std::optional<int64_t> output;
    if (parts.size() == 2) {
      input = parse_number<int64_t>(parts[0]);
      output = parse_number<int64_t>(parts[1]);
    }
    if (!input || !output || *input < 1 || *output < 1) {
      return invalid_argument(fmt::format("'{}': expected INPUT:OUTPUT in tokens", word));
    }
    pairs.emplace_back(*input, *output);
  }
  return pairs;
}

Result<std::vector<double>> parse_rates(const std::string& text) {
  std::vector<double> rates;
  for (const std::string_view part : split(text, ',')) {
    const std::optional<double> rate =
        part == "inf" ? std::numeric_limits<double>::infinity() : parse_number<double>(part);
    if (!rate || !(*rate > 0.0)) {
      return invalid_argument(
          fmt::format("'{}': expected requests per second, above 0, or inf", part)
      );
    }
    rates.push_back(*rate);
  }
  return rates;
}

Result<std::vector<int64_t>> parse_counts(const std::string& text, int64_t least) {
  std::vector<int64_t> counts;
  for (const std::string_view part : split(text, ',')) {
    const std::optional<int64_t> count = parse_number<int64_t>(part);
    if (!count || *count < least) {
      return invalid_argument(
          fmt::format("'{}': expected whole numbers of at least {}", part, least)
      );
    }
    counts.push_back(*count);
  }
  return counts;
}

Result<std::pair<std::string, std::string>> parse_assignment(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return invalid_argument(fmt::format("'{}': expected NAME=VALUE", text));
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

void add_off_switch(
    CommandLine& line, const std::string& names, bool& variable, const std::string& help
) {
  line.add_switch(
      names, [&variable] { variable = false; }, help
  );
}

}  // namespace millrace::bench
