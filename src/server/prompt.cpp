#include "server/prompt.h"

#include <fmt/format.h>

#include <limits>

#include "base/error_reason.h"
#include "server/field_error.h"
#include "server/protocol/chat_input.h"

namespace millrace {
namespace {

// A template's own words can hold a client's.
constexpr size_t kTemplateWordsBytesMax = 200;

Error refused_by_template(Error error) {
  // Elsewhere `where` is a JSON path of the input.
  if (!error.where.starts_with("chat template")) return error;
  // Whether it ran out of what a template may take is a matter of its input too.
  if (error.code != ErrorCode::kUnsupported) error.code = ErrorCode::kInvalidArgument;
  error.reason = error_reason::kTemplateRefused;
  error.where = "messages";
  error.message = std::string(cut_text(error.message, kTemplateWordsBytesMax));
  return error;
}

}  // namespace

std::vector<TokenId> tokenize_text(const ModelText& model, std::string_view text) {
  return model.tokenizer.encode(text);
}

Result<ChatInput> read_chat(
    const json::object& object, std::chrono::local_seconds now, bool generation_prompt
) {
  json::object copy = object;
  if (!copy.contains("add_generation_prompt")) copy["add_generation_prompt"] = generation_prompt;
  Result<ChatInput> chat = read_chat_input(copy);
  if (chat) chat->now = now;
  return chat;
}

Result<ChatInput> read_raw_chat(
    const json::object& object, std::chrono::local_seconds now, bool generation_prompt
) {
  ChatInput chat{.add_generation_prompt = generation_prompt, .now = now};
  const auto wrong = [](std::string_view field, std::string_view expected) {
    return invalid_argument(fmt::format("{} must be {}", field, expected), std::string(field));
  };
  const auto given = [&](std::string_view field) -> const json::value* {
    const json::value* value = object.if_contains(field);
    return value == nullptr || value->is_null() ? nullptr : value;
  };
  const json::value* messages = given("messages");
  if (messages == nullptr || !messages->is_array()) return wrong("messages", "a list of messages");
  chat.messages = messages->get_array();
  if (const json::value* tools = given("tools")) {
    if (!tools->is_array()) return wrong("tools", "a list of tools");
    chat.tools = tools->get_array();
  }
  if (const json::value* flag = given("add_generation_prompt")) {
    if (!flag->is_bool()) return wrong("add_generation_prompt", "true or false");
    chat.add_generation_prompt = flag->get_bool();
  }
  if (const json::value* more = given("chat_template_kwargs")) {
    if (!more->is_object()) return wrong("chat_template_kwargs", "an object");
    chat.chat_template_kwargs = more->get_object();
  }
  return chat;
}

Result<RenderedChat> render_chat(const ModelText& model, const ChatInput& chat) {
  if (model.chat_template) {
    if (const auto unread = model.chat_template->unread(chat)) {
      return unsupported_field(*unread, "this model's chat template does not read it");
    }
  }
  return render_raw_chat(model, chat);
}

Result<RenderedChat> render_raw_chat(const ModelText& model, const ChatInput& chat) {
  if (model.chat_template) {
    Result<RenderedChat> rendered = model.chat_template->render(chat);
    if (!rendered) return refused_by_template(rendered.error());
    return rendered;
  }
  return unsupported(
      "this model has no chat template: give a plain prompt, or a template with --chat-template",
      "messages"
  );
}

std::vector<TokenId> tokenize_chat(
    const ModelText& model, const RenderedChat& chat, bool add_special_tokens
) {
  return model.tokenizer.encode(
      chat.text, {.add_special_tokens = add_special_tokens, .plain_text = chat.input_ranges}
  );
}

Result<std::vector<TokenId>> read_token_ids(std::string_view where, const json::value& value) {
  const Error error =
      invalid_argument(fmt::format("{} must be a list of token ids", where), std::string(where));
  if (!value.is_array()) return error;
  std::vector<TokenId> ids;
  ids.reserve(value.get_array().size());
  for (const json::value& element : value.get_array()) {
    if (!element.is_int64()) return error;
    const int64_t id = element.get_int64();
    if (id < 0 || id > std::numeric_limits<TokenId>::max()) return error;
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

}  // namespace millrace
