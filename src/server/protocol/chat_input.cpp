#include "server/protocol/chat_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "server/field_error.h"
#include "server/protocol/chat_messages.h"
#include "server/protocol/request_fields.h"

namespace millrace {
namespace {

constexpr size_t kDocumentsMax = 1'024;

constexpr std::array<std::string_view, 7> kReasoningEfforts = {
    "none", "minimal", "low", "medium", "high", "xhigh", "max"};

Result<std::optional<json::array>> read_documents(const json::value* documents) {
  if (documents == nullptr) return std::optional<json::array>();
  if (!documents->is_array()) return wrong_type("documents", "a list of documents", *documents);
  const json::array& entries = documents->get_array();
  if (entries.size() > kDocumentsMax) {
    return too_many_entries("documents", entries.size(), kDocumentsMax);
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    const std::string where = fmt::format("documents[{}]", i);
    if (!entries[i].is_object()) return wrong_type(where, "an object", entries[i]);
    for (const json::key_value_pair& entry : entries[i].get_object()) {
      if (entry.value().is_string()) continue;
      return wrong_type(
          fmt::format("{}.{}", where, std::string_view(entry.key())), "a string", entry.value()
      );
    }
  }
  return std::optional<json::array>(entries);
}

Result<std::optional<std::string>> read_reasoning_effort(const json::value* effort) {
  if (effort == nullptr) return std::optional<std::string>();
  if (!effort->is_string()) return wrong_type("reasoning_effort", "a string", *effort);
  const std::string_view word = effort->get_string();
  if (std::ranges::find(kReasoningEfforts, word) == kReasoningEfforts.end()) {
    return wrong_value(
        "reasoning_effort",
        fmt::format("none, minimal, low, medium, high, xhigh or max, got {}", quoted(word))
    );
  }
  return std::optional(std::string(word));
}

// Text is all that is generated: how many calls are in it is the model's choice.
Result<void> check_parallel_calls(const json::value* is_parallel, const ChatInput& chat) {
  if (is_parallel == nullptr || !chat.tools || *is_parallel != false) return {};
  return unsupported_field("parallel_tool_calls", "with tools it can only be true");
}

Result<void> read_flags(RequestFields& fields, ChatInput& chat) {
  const std::optional<bool> begins_turn = fields.boolean("add_generation_prompt");
  chat.continue_final_message = fields.boolean("continue_final_message").value_or(false);
  chat.add_generation_prompt = begins_turn.value_or(!chat.continue_final_message);
  if (chat.add_generation_prompt && chat.continue_final_message) {
    fields.refuse(wrong_value("continue_final_message", "false with add_generation_prompt"));
  }
  return fields.result();
}

}  // namespace

Result<ChatInput> read_chat_input(json::object& body) {
  RequestFields fields(body);
  ChatInput chat;
  if (auto read = read_flags(fields, chat); !read) return read.error();
  if (const json::object* kwargs = fields.object("chat_template_kwargs")) {
    if (auto checked = check_chat_template_kwargs(*kwargs); !checked) return checked.error();
    chat.chat_template_kwargs = *kwargs;
  }
  if (auto read = fields.result(); !read) return read.error();
  Result<std::optional<std::string>> effort =
      read_reasoning_effort(fields.find("reasoning_effort"));
  if (!effort) return effort.error();
  chat.reasoning_effort = *std::move(effort);
  Result<std::optional<json::array>> tools =
      read_tools(fields.find("tools"), fields.find("tool_choice"));
  if (!tools) return tools.error();
  chat.tools = *std::move(tools);
  const auto parallel = check_parallel_calls(fields.find("parallel_tool_calls"), chat);
  if (!parallel) return parallel.error();
  Result<std::optional<json::array>> documents = read_documents(fields.find("documents"));
  if (!documents) return documents.error();
  chat.documents = *std::move(documents);
  json::value* given = body.if_contains("messages");
  Result<json::array> messages =
      read_messages(given == nullptr ? json::value() : std::move(*given));
  if (!messages) return messages.error();
  chat.messages = *std::move(messages);
  return chat;
}

}  // namespace millrace
