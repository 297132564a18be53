#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>

namespace millrace {
namespace {

// What a request must not set: arguments of Hugging Face's apply_chat_template that would change
// what the server does with the result, what the server itself gives, and the engine's own names.
constexpr std::string_view kReservedNames[] = {
    "add_generation_prompt",
    "bos_token",
    "chat_template",
    "chat_template_kwargs",
    "cls_token",
    "continue_final_message",
    "conversation",
    "conversations",
    "cycler",
    "dict",
    "documents",
    "eos_token",
    "joiner",
    "lipsum",
    "loop",
    "mask_token",
    "max_length",
    "messages",
    "namespace",
    "pad_token",
    "padding",
    "raise_exception",
    "range",
    "return_assistant_tokens_mask",
    "return_dict",
    "return_tensors",
    "sanitize_control_tokens",
    "self",
    "sep_token",
    "strftime_now",
    "tokenize",
    "tokenizer_kwargs",
    "tools",
    "truncation",
    "unk_token",
};

}  // namespace

Result<void> check_chat_template_kwargs(const json::object& kwargs) {
  for (const auto& [key, value] : kwargs) {
    const std::string_view name(key.data(), key.size());
    const std::string where = fmt::format("chat_template_kwargs.{}", name.substr(0, 100));
    const auto* const end = std::end(kReservedNames);
    if (std::find(std::begin(kReservedNames), end, name) != end) {
      return invalid_argument("this name is reserved and cannot be set here", where);
    }
    const auto is_name_byte = [](char c) {
      return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    };
    if (name.empty() || !std::all_of(name.begin(), name.end(), is_name_byte)) {
      return invalid_argument("a name consists of letters, digits and underscores", where);
    }
  }
  return {};
}

namespace {

Result<void> check_objects(const json::array& items, std::string_view path) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].is_object()) {
      return invalid_argument("expected an object", fmt::format("{}[{}]", path, i));
    }
  }
  return {};
}

Result<void> check_messages(const json::array& messages) {
  if (messages.empty()) return invalid_argument("expected at least one message", "messages");
  Result<void> objects = check_objects(messages, "messages");
  if (!objects) return objects;
  for (size_t i = 0; i < messages.size(); ++i) {
    const json::value* role = messages[i].get_object().if_contains("role");
    const std::string where = fmt::format("messages[{}].role", i);
    if (role == nullptr) return invalid_argument("every message needs a role", where);
    if (!role->is_string()) return invalid_argument("expected a string", where);
  }
  return {};
}

// Many templates write "None" or fail for a null, and cope with a key that is missing.
json::object without_nulls(const json::object& message) {
  json::object result;
  for (const auto& [key, value] : message) {
    if (!value.is_null()) result.emplace(key, value);
  }
  return result;
}

json::object with_reasoning_names(json::object message) {
  const json::value* reasoning = nullptr;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (reasoning == nullptr) reasoning = message.if_contains(name);
  }
  if (reasoning == nullptr) return message;
  json::object result;
  result["thinking"] = *reasoning;
  for (const auto& [key, value] : message) result[key] = value;
  result["reasoning_content"] = *reasoning;
  return result;
}

json::array prepared(const json::array& messages) {
  json::array result;
  for (const json::value& message : messages) {
    result.push_back(with_reasoning_names(without_nulls(message.get_object())));
  }
  return result;
}

// Of a request: its own variables, and those that the effort stands for.
json::object variables_of(const ChatInput& input) {
  json::object variables = input.chat_template_kwargs;
  if (!input.reasoning_effort) return variables;
  variables["reasoning_effort"] = *input.reasoning_effort;
  if (!variables.contains("enable_thinking")) {
    variables["enable_thinking"] = *input.reasoning_effort != "none";
  }
  return variables;
}

// The first message with tool calls.
std::optional<size_t> place_of_tool_calls(const json::array& messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const json::object* message = messages[i].if_object();
    if (message != nullptr && message->contains("tool_calls")) return i;
  }
  return std::nullopt;
}

json::value array_or_null(const std::optional<json::array>& items) {
  return items ? json::value(*items) : json::value(nullptr);
}

// Templates build special tokens from them, such as <|user|>, which a marked role would break; and
// no client can say anything with one of these words but what it means.
constexpr std::string_view kRoles[] = {
    "assistant", "developer", "function", "system", "tool", "user"};

// Stands at the end of the message to be continued while it is rendered, as in Hugging Face's
// apply_chat_template: what a template writes after it is cut off. Its space tells whether the
// template trims messages.
constexpr std::string_view kContinuationMark = "CONTINUE_FINAL_MESSAGE_TAG ";

// REQUIRES: `messages` is not empty.
Result<void> mark_final_message(json::array& messages) {
  json::value* content = messages.back().get_object().if_contains("content");
  if (content == nullptr || !content->is_string()) {
    return invalid_argument(
        "the final message needs a string to be continued",
        fmt::format("messages[{}].content", messages.size() - 1)
    );
  }
  content->get_string() += json::string_view(kContinuationMark.data(), kContinuationMark.size());
  return {};
}

// Ends the text where the marked message ends.
Result<void> cut_after_final_message(RenderedChat& chat) {
  const std::string_view trimmed = kContinuationMark.substr(0, kContinuationMark.size() - 1);
  const size_t mark = chat.text.rfind(trimmed);
  if (mark == std::string::npos) {
    return invalid_argument(
        "the chat template does not write the final message as it is, so it cannot be continued",
        "continue_final_message"
    );
  }
  const bool is_trimmed = chat.text.compare(mark, kContinuationMark.size(), kContinuationMark) != 0;
  chat.text.resize(mark);
  if (is_trimmed) chat.text.resize(chat.text.find_last_not_of(" \t\n\r\v\f") + 1);
  for (ByteRange& range : chat.input_ranges) {
    range.end = std::min(range.end, chat.text.size());
  }
  std::erase_if(chat.input_ranges, [](const ByteRange& range) { return range.begin >= range.end; });
  return {};
}

}  // namespace

Result<ChatTemplate> ChatTemplate::parse(
    std::string source, SpecialTokens tokens, const jinja::Limits& limits
) {
  return parse_named({{"default", std::move(source)}}, std::move(tokens), limits);
}

Result<ChatTemplate> ChatTemplate::parse_named(
    const std::map<std::string, std::string>& sources,
    SpecialTokens tokens,
    const jinja::Limits& limits
) {
  std::map<std::string, jinja::Template> templates;
  for (const auto& [name, source] : sources) {
    Result<jinja::Template> parsed = jinja::Template::parse(source, limits);
    if (!parsed) return parsed.error();
    templates.emplace(name, std::move(*parsed));
  }
  return ChatTemplate(std::move(templates), std::move(tokens));
}

const jinja::Template* ChatTemplate::choose(bool has_tools) const {
  if (templates_.size() == 1) return &templates_.begin()->second;
  const auto with_tools = has_tools ? templates_.find("tool_use") : templates_.end();
  const auto chosen = with_tools != templates_.end() ? with_tools : templates_.find("default");
  return chosen == templates_.end() ? nullptr : &chosen->second;
}

std::optional<std::string> ChatTemplate::unread(const ChatInput& input) const {
  const jinja::Template* chosen = choose(input.tools.has_value());
  if (chosen == nullptr) return std::nullopt;  // nothing renders it
  if (input.tools && !chosen->reads("tools")) return "tools";
  const bool has_documents = input.documents && !input.documents->empty();
  if (has_documents && !chosen->reads("documents")) return "documents";
  const bool reads_effort = chosen->reads("reasoning_effort") || chosen->reads("enable_thinking");
  if (input.reasoning_effort && !reads_effort) return "reasoning_effort";
  for (const auto& [name, value] : input.chat_template_kwargs) {
    const std::string_view key = name;
    if (!chosen->reads(key)) return fmt::format("chat_template_kwargs.{}", key);
  }
  const bool reads_calls = chosen->reads_member("tool_calls") || !chosen->reads_member("content");
  if (reads_calls) return std::nullopt;
  const std::optional<size_t> place = place_of_tool_calls(input.messages);
  if (!place) return std::nullopt;
  return fmt::format("messages[{}].tool_calls", *place);
}

Result<RenderedChat> ChatTemplate::render(const ChatInput& input) const {
  Result<void> valid = check_messages(input.messages);
  if (valid && input.tools) valid = check_objects(*input.tools, "tools");
  if (valid && input.documents) valid = check_objects(*input.documents, "documents");
  if (valid) valid = check_chat_template_kwargs(input.chat_template_kwargs);
  if (!valid) return valid.error();
  const jinja::Template* chosen = choose(input.tools.has_value());
  if (chosen == nullptr) {
    return invalid_argument(
        "the model has several chat templates and none is named \"default\"", "chat_template"
    );
  }
  json::array messages = prepared(input.messages);
  if (input.continue_final_message) {
    if (auto marked = mark_final_message(messages); !marked) return marked.error();
  }
  std::vector<jinja::Variable> variables;
  variables.push_back({"messages", std::move(messages), true, {"role", kRoles}});
  variables.push_back({"tools", array_or_null(input.tools), true});
  variables.push_back({"documents", array_or_null(input.documents), true});
  variables.push_back({"add_generation_prompt", input.add_generation_prompt, false});
  const std::pair<const char*, const std::optional<std::string>&> tokens[] = {
      {"bos_token", tokens_.bos},
      {"eos_token", tokens_.eos},
      {"unk_token", tokens_.unk},
      {"pad_token", tokens_.pad},
  };
  for (const auto& [name, token] : tokens) {
    if (token) variables.push_back({name, json::value(*token), false});
  }
  for (const auto& [name, value] : variables_of(input)) {
    variables.push_back({std::string(name), value, true});
  }
  Result<jinja::Rendered> rendered = chosen->render(variables, input.now);
  if (!rendered) return rendered.error();
  RenderedChat chat{std::move(rendered->text), std::move(rendered->input_ranges)};
  if (input.continue_final_message) {
    if (auto cut = cut_after_final_message(chat); !cut) return cut.error();
  }
  return chat;
}

}  // namespace millrace
