#include "server/protocol/tokenize_request.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>
#include <utility>

#include "server/field_error.h"
#include "server/prompt.h"
#include "server/protocol/chat_input.h"
#include "server/protocol/field_rules.h"
#include "server/protocol/openai_fields.h"
#include "server/protocol/prompt_list.h"
#include "server/protocol/request_fields.h"
#include "text/unicode.h"

namespace millrace {
namespace {

Result<PromptInput> read_input(json::object& body, bool is_chat) {
  if (is_chat) {
    Result<ChatInput> chat = read_chat_input(body);
    if (!chat) return chat.error();
    return PromptInput(*std::move(chat));
  }
  json::value& prompt = body.at("prompt");
  if (!prompt.is_string()) return wrong_type("prompt", "a string", prompt);
  return PromptInput(std::string(prompt.get_string()));
}

Result<std::vector<TokenId>> tokens_of(
    const TokenizeRequest& request, const ModelText& text, std::chrono::local_seconds now
) {
  if (const auto* plain = std::get_if<std::string>(&request.input)) {
    return text.tokenizer.encode(*plain, {.add_special_tokens = request.add_special_tokens});
  }
  ChatInput chat = std::get<ChatInput>(request.input);
  chat.now = now;
  const Result<RenderedChat> rendered = render_chat(text, chat);
  if (!rendered) return rendered.error();
  return tokenize_chat(text, *rendered, request.add_special_tokens);
}

// The vocabulary's spelling as a JSON string; nothing says that a file's is UTF-8.
void append_token_text(std::string& out, const Tokenizer& tokenizer, TokenId id) {
  const std::string_view spelling = tokenizer.token_text(id).value_or(std::string_view());
  std::string valid;
  append_utf8_lossy(spelling, true, valid);
  out += json::serialize(json::string_view(valid.data(), valid.size()));
}

}  // namespace

Result<TokenizeRequest> read_tokenize_request(
    std::string_view body, const RequestContext& context
) {
  Result<json::object> object = parse_body(body);
  if (!object) return object.error();
  RequestFields fields(*object);
  const bool has_prompt = fields.find("prompt") != nullptr;
  const bool is_chat = fields.find("messages") != nullptr;
  if (has_prompt && is_chat) return wrong_value("prompt", "left out with messages");
  if (!has_prompt && !is_chat) return missing_field("prompt", "a prompt or messages");
  const BodyKind kind = is_chat ? BodyKind::kTokenizeChat : BodyKind::kTokenizeText;
  // The other one may stand there as null.
  object->erase(is_chat ? "prompt" : "messages");
  if (auto known = check_fields(*object, kind); !known) return known.error();
  const Result<std::string> model = read_model(fields, context);
  if (!model) return model.error();
  TokenizeRequest request;
  request.add_special_tokens = fields.boolean("add_special_tokens").value_or(!is_chat);
  request.return_token_strs = fields.boolean("return_token_strs").value_or(false);
  if (auto read = fields.result(); !read) return read.error();
  Result<PromptInput> input = read_input(*object, is_chat);
  if (!input) return input.error();
  request.input = *std::move(input);
  return request;
}

Result<DetokenizeRequest> read_detokenize_request(
    std::string_view body, const RequestContext& context
) {
  const Result<json::object> object = parse_body(body);
  if (!object) return object.error();
  if (auto known = check_fields(*object, BodyKind::kDetokenize); !known) return known.error();
  RequestFields fields(*object);
  const Result<std::string> model = read_model(fields, context);
  if (!model) return model.error();
  const json::value* tokens = fields.find("tokens");
  if (tokens == nullptr) return missing_field("tokens", "a list of token ids");
  Result<std::vector<TokenId>> ids = read_token_list("tokens", *tokens, context.limits.vocab_size);
  if (!ids) return ids.error();
  return DetokenizeRequest{.tokens = *std::move(ids)};
}

Result<std::string> tokenize_answer(
    const TokenizeRequest& request,
    const ModelText& text,
    int32_t max_model_len,
    std::chrono::local_seconds now
) {
  const Result<std::vector<TokenId>> ids = tokens_of(request, text, now);
  if (!ids) return ids.error();
  std::string answer =
      fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[)", ids->size(), max_model_len);
  for (size_t i = 0; i < ids->size(); ++i) {
    if (i > 0) answer += ',';
    answer += std::to_string((*ids)[i]);
  }
  answer += R"(],"token_strs":)";
  if (!request.return_token_strs) return answer + "null}";
  answer += '[';
  for (size_t i = 0; i < ids->size(); ++i) {
    if (i > 0) answer += ',';
    append_token_text(answer, text.tokenizer, (*ids)[i]);
  }
  return answer + "]}";
}

std::string detokenize_answer(const DetokenizeRequest& request, const ModelText& text) {
  return json::serialize(json::object{
      {"prompt", text.tokenizer.decode(request.tokens, /*skip_special_tokens=*/false)}});
}

}  // namespace millrace
