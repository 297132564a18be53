// Reading a JSON document field by field, with errors that name the JSON path. A node borrows its
// value. Callable from any thread.
#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"

namespace millrace {

class JsonNode {
 public:
  JsonNode(const json::value& value, std::string path) : value_(&value), path_(std::move(path)) {}

  const json::value& value() const { return *value_; }
  const std::string& path() const { return path_; }

  // An error at this place: `problem` completes the sentence "<path> ...".
  Error error(std::string_view problem) const {
    return invalid_argument(fmt::format("{} {}", shown_path(), problem), path_);
  }
  Error unsupported_here(std::string_view problem) const {
    return unsupported(fmt::format("{} {}", shown_path(), problem), path_);
  }
  // The error of something built from this node.
  Error wrap(const Error& inner) const {
    return {inner.code, fmt::format("{}: {}", shown_path(), inner.message), path_};
  }

  // The member `name`; nullopt where it is absent or null, or this is no object.
  std::optional<JsonNode> member(std::string_view name) const {
    const json::object* object = value_->if_object();
    const json::value* found = object == nullptr ? nullptr : object->if_contains(name);
    if (found == nullptr || found->is_null()) return std::nullopt;
    return JsonNode(*found, path_.empty() ? std::string(name) : fmt::format("{}.{}", path_, name));
  }
  Result<JsonNode> require(std::string_view name) const {
    std::optional<JsonNode> found = member(name);
    if (!found) return error(fmt::format("lacks \"{}\"", name));
    return *std::move(found);
  }
  JsonNode element(size_t i) const {
    return JsonNode(value_->get_array()[i], fmt::format("{}[{}]", path_, i));
  }

  Result<std::string_view> string() const {
    const json::string* found = value_->if_string();
    if (found == nullptr) return error("is not a string");
    return std::string_view(*found);
  }
  Result<const json::array*> array() const {
    const json::array* found = value_->if_array();
    if (found == nullptr) return error("is not an array");
    return found;
  }
  Result<const json::object*> object() const {
    const json::object* found = value_->if_object();
    if (found == nullptr) return error("is not an object");
    return found;
  }
  // An integer from `low` to `high`.
  Result<int64_t> integer(int64_t low, int64_t high) const {
    const auto* found = value_->if_int64();
    if (found == nullptr || *found < low || *found > high) {
      return error(fmt::format("is not an integer from {} to {}", low, high));
    }
    return *found;
  }

  // Members with a default; an error where one is present and of another type.
  Result<bool> bool_member(std::string_view name, bool absent) const {
    const std::optional<JsonNode> found = member(name);
    if (!found) return absent;
    const bool* value = found->value().if_bool();
    if (value == nullptr) return found->error("is not true or false");
    return *value;
  }
  Result<std::string> string_member(std::string_view name) const {
    Result<JsonNode> found = require(name);
    if (!found) return found.error();
    Result<std::string_view> text = found->string();
    if (!text) return text.error();
    return std::string(*text);
  }

 private:
  std::string shown_path() const { return path_.empty() ? "the document" : path_; }

  const json::value* value_;
  std::string path_;
};

}  // namespace millrace
