#include "server/prompt.h"

#include <fmt/format.h>

#include <limits>

namespace millrace {

std::vector<TokenId> tokenize_text(const ModelText& model, std::string_view text) {
  return model.tokenizer.encode(text);
}

Result<std::vector<TokenId>> tokenize_chat(const ModelText& model, const ChatPrompt& chat) {
  if (!model.chat_template) {
    return unsupported(
        "this model has no chat template: give a plain prompt, or a template with --chat-template",
        "messages"
    );
  }
  Result<RenderedChat> rendered = model.chat_template->render(chat.input);
  if (!rendered) return rendered.error();
  return model.tokenizer.encode(
      rendered->text, {.add_special_tokens = false, .plain_text = rendered->input_ranges}
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
