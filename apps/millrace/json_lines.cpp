#include "json_lines.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <string>

namespace millrace {

Result<void> for_each_json_line(
    const std::function<Result<json::value>(const json::value& line)>& convert
) {
  std::ios::sync_with_stdio(false);
  std::string line;
  for (size_t number = 1; std::getline(std::cin, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const Result<json::value> value = parse_json(line);
    const Result<json::value> converted = value ? convert(*value) : value.error();
    if (!converted) {
      return invalid_argument(fmt::format("line {}: {}", number, converted.error().message));
    }
    fmt::print("{}\n", to_json_text(*converted));
  }
  return {};
}

}  // namespace millrace
