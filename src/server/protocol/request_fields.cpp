#include "server/protocol/request_fields.h"

#include <fmt/format.h>

#include "base/error_reason.h"
#include "server/field_error.h"
#include "text/unicode.h"

namespace millrace {

Result<json::object> parse_body(std::string_view body) {
  if (body.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return invalid_argument(
        "the body is empty: expected a JSON object", "", error_reason::kInvalidJson
    );
  }
  Result<json::value> value = parse_json(body);
  if (!value) {
    Error error = value.error();
    error.reason = error_reason::kInvalidJson;
    return error;
  }
  if (!value->is_object()) {
    Error error = wrong_type("the body", "a JSON object", *value);
    error.where.clear();
    return error;
  }
  return std::move(value->get_object());
}

const json::value* RequestFields::find(std::string_view key) const {
  const json::value* value = object_.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::string RequestFields::path_of(std::string_view key) const {
  return fmt::format("{}{}", path_, key);
}

std::optional<bool> RequestFields::boolean(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (const bool* flag = value->if_bool()) return *flag;
  refuse(wrong_type(path_of(key), "true or false", *value));
  return std::nullopt;
}

std::optional<int32_t> RequestFields::integer(std::string_view key, Int32Range range) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const Result<int32_t> number = read_integer(path_of(key), *value, range);
  if (number) return *number;
  refuse(number.error());
  return std::nullopt;
}

std::optional<std::string> RequestFields::string(std::string_view key, LengthRange length) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const Result<void> checked = check_string(path_of(key), *value, length);
  if (checked) return std::string(value->get_string());
  refuse(checked.error());
  return std::nullopt;
}

const json::object* RequestFields::object(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return nullptr;
  if (const json::object* nested = value->if_object()) return nested;
  refuse(wrong_type(path_of(key), "an object", *value));
  return nullptr;
}

void RequestFields::refuse(Error error) {
  if (!error_) error_ = std::move(error);
}

Result<void> RequestFields::result() const {
  if (error_) return *error_;
  return {};
}

Result<int32_t> read_integer(std::string_view path, const json::value& value, Int32Range range) {
  if (!value.is_int64() && !value.is_uint64()) return wrong_type(path, "an integer", value);
  const bool is_above = value.is_uint64() || value.get_int64() > range.max;
  const bool is_below = value.is_int64() && value.get_int64() < range.min;
  if (!is_above && !is_below) return static_cast<int32_t>(value.get_int64());
  return invalid_argument(
      fmt::format(
          "{} must be between {} and {}, got {}",
          path,
          range.min,
          range.max,
          std::string_view(json::serialize(value))
      ),
      std::string(path),
      is_above ? error_reason::kIntegerAboveMax : error_reason::kIntegerBelowMin
  );
}

Result<void> check_string(std::string_view path, const json::value& value, LengthRange length) {
  if (!value.is_string()) return wrong_type(path, "a string", value);
  const std::string_view text = value.get_string();
  // Counting is bounded whatever the client sends.
  const size_t size = text.size() > 4 * length.max ? text.size() : num_code_points(text);
  if (size >= length.min && size <= length.max) return {};
  return invalid_argument(
      fmt::format("{} must have {} to {} characters", path, length.min, length.max),
      std::string(path),
      size < length.min ? error_reason::kStringBelowMin : error_reason::kStringAboveMax
  );
}

}  // namespace millrace
