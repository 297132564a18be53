// The tools half of chat_messages.h.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/error_reason.h"
#include "server/field_error.h"
#include "server/protocol/chat_messages.h"

namespace millrace {
namespace {

constexpr size_t kToolsMax = 1'024;
constexpr size_t kNameBytesMax = 64;  // OpenAI's
constexpr size_t kDescriptionBytesMax = 1 << 20;

using Names = std::unordered_set<std::string_view>;

bool is_function_name(std::string_view name) {
  const auto is_name_byte = [](char c) {
    return c == '_' || c == '-' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z');
  };
  return !name.empty() && name.size() <= kNameBytesMax && std::ranges::all_of(name, is_name_byte);
}

Result<std::string_view> read_name(const std::string& path, const json::object& function) {
  const std::string where = path + ".name";
  const json::value* name = function.if_contains("name");
  if (name == nullptr || name->is_null()) return missing_field(where, "the function's name");
  if (!name->is_string()) return wrong_type(where, "a string", *name);
  const std::string_view text = name->get_string();
  if (is_function_name(text)) return text;
  return wrong_value(
      where, fmt::format("1 to {} letters, digits, underscores and dashes", kNameBytesMax)
  );
}

// REQUIRES: `value` is not null.
Result<void> check_function_field(
    const std::string& where, std::string_view key, const json::value& value
) {
  if (key == "name") return {};
  if (key == "description") {
    if (!value.is_string()) return wrong_type(where, "a string", value);
    if (value.get_string().size() <= kDescriptionBytesMax) return {};
    return wrong_value(where, fmt::format("at most {} bytes long", kDescriptionBytesMax));
  }
  if (key == "parameters") {
    if (value.is_object()) return {};
    return wrong_type(where, "a JSON schema, an object", value);
  }
  if (key == "strict") {
    if (!value.is_bool()) return wrong_type(where, "true or false", value);
    if (!value.get_bool()) return {};
    return unsupported_field(where, "calls are not held to their schema");
  }
  return unknown_field(where);
}

Result<void> check_tool(const std::string& path, const json::value& tool, Names& names) {
  if (!tool.is_object()) return wrong_type(path, "an object", tool);
  const json::object& object = tool.get_object();
  const json::value* type = object.if_contains("type");
  if (type != nullptr && !type->is_string()) return wrong_type(path + ".type", "a string", *type);
  if (type != nullptr && type->get_string() != "function") {
    return unsupported_field(path + ".type", "functions only");
  }
  for (const json::key_value_pair& entry : object) {
    const std::string_view key = entry.key();
    if (key != "type" && key != "function") return unknown_field(fmt::format("{}.{}", path, key));
  }
  const std::string function_path = path + ".function";
  const json::value* function = object.if_contains("function");
  if (function == nullptr) return missing_field(function_path, "an object");
  if (!function->is_object()) return wrong_type(function_path, "an object", *function);
  const Result<std::string_view> name = read_name(function_path, function->get_object());
  if (!name) return name.error();
  for (const json::key_value_pair& entry : function->get_object()) {
    if (entry.value().is_null()) continue;
    const std::string where = fmt::format("{}.{}", function_path, std::string_view(entry.key()));
    if (auto checked = check_function_field(where, entry.key(), entry.value()); !checked) {
      return checked;
    }
  }
  if (names.insert(*name).second) return {};
  return wrong_value(function_path + ".name", "another name than an earlier tool's");
}

// Whether the model may use its tools.
Result<bool> read_choice(const json::value& choice, const Names& names) {
  if (const json::string* word = choice.if_string()) {
    if (*word == "none") return false;
    const bool is_known = *word == "auto" || *word == "required";
    if (!is_known) {
      return wrong_value(
          "tool_choice", fmt::format("none, auto, required or a function, got {}", quoted(*word))
      );
    }
    if (names.empty()) return wrong_value("tool_choice", "none without tools");
    if (*word == "auto") return true;
    return unsupported_field("tool_choice", "a call cannot be promised; use auto");
  }
  if (!choice.is_object()) return wrong_type("tool_choice", "a string or a function", choice);
  const json::value* type = choice.get_object().if_contains("type");
  const json::value* function = choice.get_object().if_contains("function");
  const bool is_function = type != nullptr && *type == "function";
  if (!is_function) return wrong_value("tool_choice.type", "\"function\"");
  if (function == nullptr || !function->is_object()) {
    return missing_field("tool_choice.function", "an object");
  }
  const Result<std::string_view> name = read_name("tool_choice.function", function->get_object());
  if (!name) return name.error();
  if (!names.contains(*name)) return wrong_value("tool_choice.function.name", "one of the tools");
  return unsupported_field("tool_choice", "a call cannot be promised; use auto");
}

}  // namespace

Result<std::optional<json::array>> read_tools(
    const json::value* tools, const json::value* tool_choice
) {
  Names names;
  if (tools != nullptr) {
    if (!tools->is_array()) return wrong_type("tools", "a list of tools", *tools);
    const json::array& entries = tools->get_array();
    if (entries.size() > kToolsMax) return too_many_entries("tools", entries.size(), kToolsMax);
    for (size_t i = 0; i < entries.size(); ++i) {
      if (auto checked = check_tool(fmt::format("tools[{}]", i), entries[i], names); !checked) {
        return checked.error();
      }
    }
  }
  bool is_used = !names.empty();
  if (tool_choice != nullptr) {
    const Result<bool> choice = read_choice(*tool_choice, names);
    if (!choice) return choice.error();
    is_used = is_used && *choice;
  }
  if (!is_used) return std::optional<json::array>();
  return std::optional<json::array>(tools->get_array());
}

}  // namespace millrace
