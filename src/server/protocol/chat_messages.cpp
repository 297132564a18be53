#include "server/protocol/chat_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/error_reason.h"
#include "server/field_error.h"

namespace millrace {
namespace {

constexpr size_t kMessagesMax = 10'000;
constexpr size_t kToolCallsMax = 1'000;  // of one message
constexpr size_t kNameBytesMax = 64;

enum class Role { kSystem, kUser, kAssistant, kTool, kFunction };

constexpr std::array<std::pair<std::string_view, Role>, 6> kRoles = {{
    {"system", Role::kSystem},
    {"developer", Role::kSystem},
    {"user", Role::kUser},
    {"assistant", Role::kAssistant},
    {"tool", Role::kTool},
    {"function", Role::kFunction},
}};

std::string_view template_role(Role role) {
  // The first of a role's names is the one that templates know.
  return std::ranges::find(kRoles, role, &std::pair<std::string_view, Role>::second)->first;
}

struct MessageKey {
  std::string_view name;
  std::optional<Role> role;  // none: every role's
};

constexpr MessageKey kMessageKeys[] = {
    {"role", std::nullopt},
    {"content", std::nullopt},
    {"name", std::nullopt},
    {"tool_calls", Role::kAssistant},
    {"refusal", Role::kAssistant},
    {"annotations", Role::kAssistant},
    {"audio", Role::kAssistant},
    {"function_call", Role::kAssistant},
    {"reasoning", Role::kAssistant},
    {"reasoning_content", Role::kAssistant},
    {"thinking", Role::kAssistant},
    {"tool_call_id", Role::kTool},
};

constexpr std::string_view kMediaParts[] = {
    "image_url",
    "image",
    "input_image",
    "image_pil",
    "image_embeds",
    "input_audio",
    "audio",
    "audio_url",
    "audio_embeds",
    "video",
    "video_url",
    "file",
    "input_file",
};

// Reads one message. Paths are made for errors only.
class MessageReader {
 public:
  MessageReader(size_t index, json::object& message) : index_(index), message_(message) {}

  // Takes the strings out of the message.
  Result<json::object> read() {
    if (auto done = read_role(); !done) return done.error();
    if (auto done = check_keys(); !done) return done.error();
    if (auto done = read_tool_calls(); !done) return done.error();
    json::object result;
    result["role"] = template_role(role_);
    Result<json::string> content = read_content();
    if (!content) return content.error();
    result["content"] = *std::move(content);
    if (auto done = read_names(result); !done) return done.error();
    for (const std::string_view key : {"reasoning", "reasoning_content", "thinking"}) {
      json::value* text = find(key);
      if (text == nullptr) continue;
      if (!text->is_string()) return wrong_type(path(key), "a string", *text);
      result[key] = std::move(text->get_string());
    }
    if (!tool_calls_.empty()) result["tool_calls"] = std::move(tool_calls_);
    return result;
  }

 private:
  std::string path(std::string_view key) const {
    return fmt::format("messages[{}].{}", index_, key);
  }

  json::value* find(std::string_view key) {
    json::value* value = message_.if_contains(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  Result<void> read_role() {
    const json::value* role = find("role");
    if (role == nullptr) return missing_field(path("role"), "the speaker");
    if (!role->is_string()) return wrong_type(path("role"), "a string", *role);
    const std::string_view name = role->get_string();
    const auto* known = std::ranges::find(kRoles, name, &std::pair<std::string_view, Role>::first);
    if (known == kRoles.end()) {
      return wrong_value(
          path("role"),
          fmt::format(
              "one of system, developer, user, assistant, tool and function, got {}", quoted(name)
          )
      );
    }
    role_ = known->second;
    return {};
  }

  Result<void> check_keys() {
    for (const json::key_value_pair& entry : message_) {
      const std::string_view key = entry.key();
      const auto* known = std::ranges::find(kMessageKeys, key, &MessageKey::name);
      const bool is_known = known != std::end(kMessageKeys) &&
                            (!known->role || *known->role == role_ || entry.value().is_null());
      if (!is_known) return unknown_field(path(key));
    }
    for (const std::string_view key : {"audio", "function_call"}) {
      if (find(key) != nullptr) return unsupported_field(path(key));
    }
    return {};
  }

  Result<void> read_names(json::object& result) {
    if (json::value* name = find("name")) {
      if (!name->is_string()) return wrong_type(path("name"), "a string", *name);
      const std::string_view text = name->get_string();
      // OpenAI's rule: these could be taken for a template's own marks.
      const bool is_valid = !text.empty() && text.size() <= kNameBytesMax &&
                            text.find_first_of(" \t\r\n<|\\/>") == std::string_view::npos;
      if (!is_valid) {
        return wrong_value(
            path("name"),
            fmt::format("1 to {} bytes without spaces and any of <|\\/>", kNameBytesMax)
        );
      }
      result["name"] = std::move(name->get_string());
    }
    if (role_ != Role::kTool) return {};
    json::value* id = find("tool_call_id");
    if (id == nullptr) return missing_field(path("tool_call_id"), "the id of the call it answers");
    if (!id->is_string()) return wrong_type(path("tool_call_id"), "a string", *id);
    result["tool_call_id"] = std::move(id->get_string());
    return {};
  }

  Result<json::string> read_content() {
    json::value* content = find("content");
    if (content == nullptr) return content_of_silence();
    if (json::string* text = content->if_string()) return std::move(*text);
    if (!content->is_array()) {
      return wrong_type(path("content"), "a string or a list of parts", *content);
    }
    json::array& parts = content->get_array();
    if (parts.empty()) {
      return invalid_argument(
          path("content") + " must not be an empty list",
          path("content"),
          error_reason::kArrayBelowMin
      );
    }
    json::string joined;
    for (size_t i = 0; i < parts.size(); ++i) {
      Result<json::string> text = read_part(i, parts[i]);
      if (!text) return text.error();
      if (i == 0) {
        joined = *std::move(text);
      } else {
        joined += '\n';
        joined += *text;
      }
    }
    return joined;
  }

  // An assistant that called tools or refused may have said nothing.
  Result<json::string> content_of_silence() {
    if (!tool_calls_.empty()) return json::string();
    if (json::value* refusal = find("refusal")) {
      if (!refusal->is_string()) return wrong_type(path("refusal"), "a string", *refusal);
      return std::move(refusal->get_string());
    }
    return missing_field(path("content"), "a string or a list of parts");
  }

  Result<json::string> read_part(size_t i, json::value& part) {
    const auto where = [&](std::string_view key) {
      return fmt::format("messages[{}].content[{}]{}", index_, i, key);
    };
    if (!part.is_object()) return wrong_type(where(""), "an object with a type", part);
    json::object& object = part.get_object();
    const json::value* type = object.if_contains("type");
    if (type == nullptr) return missing_field(where(".type"), "\"text\"");
    if (!type->is_string()) return wrong_type(where(".type"), "a string", *type);
    const std::string_view kind = type->get_string();
    if (std::ranges::find(kMediaParts, kind) != std::end(kMediaParts)) {
      return unsupported_field(
          where(".type"), fmt::format("the model reads text, and no {}", quoted(kind))
      );
    }
    const bool is_refusal = kind == "refusal" && role_ == Role::kAssistant;
    if (kind != "text" && !is_refusal) {
      return wrong_value(where(".type"), fmt::format("\"text\", got {}", quoted(kind)));
    }
    const std::string_view key = is_refusal ? "refusal" : "text";
    const std::string key_path = where(is_refusal ? ".refusal" : ".text");
    json::value* text = object.if_contains(key);
    if (text == nullptr) return missing_field(key_path, "a string");
    if (!text->is_string()) return wrong_type(key_path, "a string", *text);
    for (const json::key_value_pair& entry : object) {
      const std::string_view name = entry.key();
      if (name == "type" || name == key || entry.value().is_null()) continue;
      return unknown_field(fmt::format("{}.{}", where(""), name));
    }
    return std::move(text->get_string());
  }

  Result<void> read_tool_calls() {
    json::value* calls = find("tool_calls");
    if (calls == nullptr) return {};
    if (!calls->is_array()) return wrong_type(path("tool_calls"), "a list", *calls);
    json::array& entries = calls->get_array();
    if (entries.size() > kToolCallsMax) {
      return too_many_entries(path("tool_calls"), entries.size(), kToolCallsMax);
    }
    for (size_t i = 0; i < entries.size(); ++i) {
      Result<json::object> call =
          read_tool_call(fmt::format("messages[{}].tool_calls[{}]", index_, i), entries[i]);
      if (!call) return call.error();
      tool_calls_.emplace_back(*std::move(call));
    }
    return {};
  }

  static Result<json::object> read_tool_call(const std::string& where, json::value& call) {
    if (!call.is_object()) return wrong_type(where, "an object", call);
    json::object& object = call.get_object();
    for (const json::key_value_pair& entry : object) {
      const std::string_view key = entry.key();
      // Clients that put a streamed call together keep its index.
      if (key == "id" || key == "type" || key == "function" || key == "index") continue;
      return unknown_field(fmt::format("{}.{}", where, key));
    }
    const json::value* id = object.if_contains("id");
    if (id == nullptr) return missing_field(where + ".id", "the id of the call");
    if (!id->is_string()) return wrong_type(where + ".id", "a string", *id);
    if (const json::value* type = object.if_contains("type")) {
      if (!type->is_string()) return wrong_type(where + ".type", "a string", *type);
      if (type->get_string() != "function") {
        return unsupported_field(where + ".type", "calls of functions only");
      }
    }
    json::value* function = object.if_contains("function");
    if (function == nullptr) return missing_field(where + ".function", "an object");
    Result<json::object> called = read_called_function(where + ".function", *function);
    if (!called) return called.error();
    return json::object{{"id", *id}, {"type", "function"}, {"function", *std::move(called)}};
  }

  static Result<json::object> read_called_function(
      const std::string& where, json::value& function
  ) {
    if (!function.is_object()) return wrong_type(where, "an object", function);
    json::object& object = function.get_object();
    for (const json::key_value_pair& entry : object) {
      const std::string_view key = entry.key();
      if (key != "name" && key != "arguments") {
        return unknown_field(fmt::format("{}.{}", where, key));
      }
    }
    const json::value* name = object.if_contains("name");
    if (name == nullptr) return missing_field(where + ".name", "a string");
    if (!name->is_string()) return wrong_type(where + ".name", "a string", *name);
    if (name->get_string().empty()) return wrong_value(where + ".name", "a name");
    const json::value* arguments = object.if_contains("arguments");
    if (arguments == nullptr) return missing_field(where + ".arguments", "a string of JSON");
    if (!arguments->is_string()) {
      return wrong_type(where + ".arguments", "a string of JSON", *arguments);
    }
    const std::string_view text = arguments->get_string();
    if (text.empty()) return json::object{{"name", *name}, {"arguments", json::object()}};
    // A model wrote them, so that a key may stand there twice; the last counts, as in Python.
    Result<json::value> parsed = parse_json(text, {.allow_duplicate_keys = true});
    if (!parsed || !parsed->is_object()) {
      return wrong_value(where + ".arguments", "the text of a JSON object");
    }
    return json::object{{"name", *name}, {"arguments", *std::move(parsed)}};
  }

  size_t index_;
  json::object& message_;
  Role role_ = Role::kUser;
  json::array tool_calls_;
};

}  // namespace

Result<json::array> read_messages(json::value messages) {
  if (messages.is_null()) return missing_field("messages", "a list of messages");
  if (!messages.is_array()) return wrong_type("messages", "a list of messages", messages);
  json::array& entries = messages.get_array();
  if (entries.empty()) {
    return invalid_argument(
        "messages must not be an empty list", "messages", error_reason::kArrayBelowMin
    );
  }
  if (entries.size() > kMessagesMax) {
    return too_many_entries("messages", entries.size(), kMessagesMax);
  }
  json::array result;
  result.reserve(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!entries[i].is_object()) {
      return wrong_type(fmt::format("messages[{}]", i), "an object", entries[i]);
    }
    Result<json::object> message = MessageReader(i, entries[i].get_object()).read();
    if (!message) return message.error();
    result.emplace_back(*std::move(message));
  }
  return result;
}

}  // namespace millrace
