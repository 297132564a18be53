#include "base/json_fields.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace millrace {
namespace {

constexpr size_t kListMax = 4096;

// Numbers as JSON writes them: 1e6 and 1000000.0 are doubles there, and integers to a reader.
std::optional<int64_t> as_integer(const json::value& value) {
  if (const int64_t* integer = value.if_int64()) return *integer;
  const double* number = value.if_double();
  if (number == nullptr || std::trunc(*number) != *number || std::abs(*number) > 0x1.0p53) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*number);
}

std::optional<double> as_number(const json::value& value) {
  if (const int64_t* integer = value.if_int64()) return static_cast<double>(*integer);
  if (const uint64_t* integer = value.if_uint64()) return static_cast<double>(*integer);
  const double* number = value.if_double();
  if (number == nullptr || !std::isfinite(*number)) return std::nullopt;
  return *number;
}

}  // namespace

void JsonFields::refuse(ErrorCode code, std::string_view key, std::string message) {
  if (!error_) error_ = Error{code, std::move(message), fmt::format("{}{}", path_, key)};
}

const json::value* JsonFields::find(std::string_view key) const {
  const json::value* value = object_.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::optional<int64_t> JsonFields::integer(std::string_view key, IntRange range) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<int64_t> integer = as_integer(*value);
  if (!integer) {
    refuse(ErrorCode::kInvalidArgument, key, fmt::format("'{}{}' must be an integer", path_, key));
    return std::nullopt;
  }
  if (*integer < range.min || *integer > range.max) {
    refuse(
        ErrorCode::kInvalidArgument,
        key,
        fmt::format("'{}{}' is {}; it must be {} to {}", path_, key, *integer, range.min, range.max)
    );
    return std::nullopt;
  }
  return integer;
}

std::optional<double> JsonFields::number(std::string_view key, NumberRange range) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<double> number = as_number(*value);
  if (!number) {
    refuse(ErrorCode::kInvalidArgument, key, fmt::format("'{}{}' must be a number", path_, key));
    return std::nullopt;
  }
  if (*number < range.min || *number > range.max) {
    refuse(
        ErrorCode::kInvalidArgument,
        key,
        fmt::format("'{}{}' is {}; it must be {} to {}", path_, key, *number, range.min, range.max)
    );
    return std::nullopt;
  }
  return number;
}

std::optional<bool> JsonFields::boolean(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const bool* boolean = value->if_bool();
  if (boolean == nullptr) {
    refuse(
        ErrorCode::kInvalidArgument, key, fmt::format("'{}{}' must be true or false", path_, key)
    );
    return std::nullopt;
  }
  return *boolean;
}

std::optional<std::string> JsonFields::string(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return std::nullopt;
  const json::string* string = value->if_string();
  if (string == nullptr) {
    refuse(ErrorCode::kInvalidArgument, key, fmt::format("'{}{}' must be a string", path_, key));
    return std::nullopt;
  }
  return std::string(string->data(), string->size());
}

const json::object* JsonFields::object(std::string_view key) {
  const json::value* value = find(key);
  if (value == nullptr) return nullptr;
  const json::object* object = value->if_object();
  if (object == nullptr) {
    refuse(ErrorCode::kInvalidArgument, key, fmt::format("'{}{}' must be an object", path_, key));
  }
  return object;
}

int64_t JsonFields::required_integer(std::string_view key, IntRange range) {
  if (find(key) == nullptr) {
    refuse(ErrorCode::kInvalidArgument, key, fmt::format("'{}{}' is missing", path_, key));
  }
  return integer(key, range).value_or(range.min);
}

std::vector<TokenId> JsonFields::token_ids(std::string_view key, int64_t vocab_size) {
  const json::value* value = find(key);
  std::vector<TokenId> ids;
  if (value == nullptr) return ids;
  const IntRange range{.min = 0, .max = vocab_size - 1};
  if (value->is_array()) {
    for (const int64_t id : integers(key, range)) ids.push_back(static_cast<TokenId>(id));
  } else if (const std::optional<int64_t> id = integer(key, range)) {
    ids.push_back(static_cast<TokenId>(*id));
  }
  return ids;
}

std::vector<int64_t> JsonFields::integers(std::string_view key, IntRange range) {
  const json::value* value = find(key);
  if (value == nullptr) return {};
  const json::array* array = value->if_array();
  if (array == nullptr || array->size() > kListMax) {
    refuse(
        ErrorCode::kInvalidArgument,
        key,
        fmt::format("'{}{}' must be a list of at most {} integers", path_, key, kListMax)
    );
    return {};
  }
  std::vector<int64_t> integers;
  for (const json::value& entry : *array) {
    const std::optional<int64_t> integer = as_integer(entry);
    if (!integer || *integer < range.min || *integer > range.max) {
      refuse(
          ErrorCode::kInvalidArgument,
          key,
          fmt::format("'{}{}' must hold integers from {} to {}", path_, key, range.min, range.max)
      );
      return {};
    }
    integers.push_back(*integer);
  }
  return integers;
}

}  // namespace millrace
