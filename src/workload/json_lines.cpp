#include "workload/json_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"

namespace millrace::bench {
namespace {

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

std::optional<double> number_of(const json::value& value) {
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  if (value.is_double() && std::isfinite(value.get_double())) return value.get_double();
  return std::nullopt;
}

std::string shortened(const json::value& value) {
  constexpr size_t kShownMax = 60;
  const std::string text = to_json_text(value);
  return text.size() <= kShownMax ? text : text.substr(0, kShownMax) + "...";
}

const json::value* find(const json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

}  // namespace

Error at_line(const std::string& path, size_t number, const Error& error) {
  const std::string place = fmt::format("{}:{}", path, number);
  return {error.code, place + ": " + error.message, place};
}

Result<void> for_each_line(const std::string& path, const TakeLine& take) {
  Result<std::string> text = read_file(path, kDatasetFileSizeMax);
  if (!text) return text.error();
  std::string_view rest = *text;
  if (rest.starts_with("\xEF\xBB\xBF")) rest.remove_prefix(3);
  for (size_t number = 1; !rest.empty(); ++number) {
    if (number > kDatasetLinesMax) {
      return invalid_argument(
          fmt::format("{} has more than {} lines", path, kDatasetLinesMax), path
      );
    }
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (is_blank(line)) continue;
    if (line.ends_with('\r')) line.remove_suffix(1);
    Result<void> taken = take(line, number);
    if (!taken) return at_line(path, number, taken.error());
  }
  return {};
}

Result<void> for_each_json_line(const std::string& path, const TakeObject& take) {
  return for_each_line(path, [&](std::string_view line, size_t number) -> Result<void> {
    Result<json::value> value = parse_json(line);
    if (!value) return value.error();
    const json::object* object = value->if_object();
    if (object == nullptr) {
      return invalid_argument("expected a JSON object, found " + shortened(*value));
    }
    return take(*object, number);
  });
}

Result<std::optional<int64_t>> read_count(
    const json::object& object, std::string_view key, int64_t max
) {
  const json::value* value = find(object, key);
  if (value == nullptr) return std::optional<int64_t>();
  const std::optional<double> number = number_of(*value);
  if (!number || *number < 0.0 || *number > static_cast<double>(max) ||
      *number != std::floor(*number)) {
    return invalid_argument(
        fmt::format(
            "'{}' is {}, expected a whole number from 0 to {}", key, shortened(*value), max
        ),
        std::string(key)
    );
  }
  return std::optional<int64_t>(static_cast<int64_t>(*number));
}

Result<std::optional<double>> read_number(const json::object& object, std::string_view key) {
  const json::value* value = find(object, key);
  if (value == nullptr) return std::optional<double>();
  const std::optional<double> number = number_of(*value);
  if (!number) {
    return invalid_argument(
        fmt::format("'{}' is {}, expected a number", key, shortened(*value)), std::string(key)
    );
  }
  return number;
}

Result<std::optional<std::string>> read_text(const json::object& object, std::string_view key) {
  const json::value* value = find(object, key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) {
    return invalid_argument(
        fmt::format("'{}' is {}, expected a string", key, shortened(*value)), std::string(key)
    );
  }
  return std::optional<std::string>(std::string(value->get_string()));
}

}  // namespace millrace::bench
