// What tests of request bodies share: a small model to read them against, and cases that say which
// answer a body gets.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/json.h"
#include "server/prompt.h"
#include "server/protocol/abort_request.h"
#include "server/protocol/api_error.h"
#include "server/protocol/chat_request.h"
#include "server/protocol/completion_request.h"
#include "server/protocol/native_request.h"
#include "server/protocol/tokenize_request.h"
#include "text/byte_alphabet.h"
#include "text/unicode.h"

namespace millrace {

// A tokenizer of one token a byte, whose id is the byte, and special tokens "<token 256>" to
// "<token 999>"; and a template that refuses a late system turn.
inline ModelText small_model_text() {
  json::object vocabulary;
  for (int byte = 0; byte < 256; ++byte) {
    std::string character;
    append_utf8(byte_to_character(static_cast<uint8_t>(byte)), character);
    vocabulary[character] = byte;
  }
  json::array added;
  for (int id = 256; id < 1000; ++id) {
    added.push_back({{"id", id}, {"content", fmt::format("<token {}>", id)}, {"special", true}});
  }
  Result<Tokenizer> tokenizer = Tokenizer::from_json(json::serialize(json::object{
      {"added_tokens", added},
      {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", json::array()}}},
      {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}}},
      {"decoder", {{"type", "ByteLevel"}}},
  }));
  CHECK(tokenizer.ok(), tokenizer.error().message);
  Result<ChatTemplate> chat_template = ChatTemplate::parse(
      "{% for m in messages %}"
      "{% if m.role == 'system' and not loop.first %}"
      "{{ raise_exception('System message must be at the beginning') }}{% endif %}"
      "[{{ m.role }}]{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% endif "
      "%}[end]"
      "{% endfor %}{% if tools %}{{ tools | tojson }}{% endif %}"
      "{% if enable_thinking is false %}[plain]{% endif %}"
      "{% if add_generation_prompt %}[assistant]{% endif %}",
      {}
  );
  CHECK(chat_template.ok(), chat_template.error().message);
  return {.tokenizer = *std::move(tokenizer), .chat_template = *std::move(chat_template)};
}

// What small_model_text() is served with. Members refer to one another, so it stays in its place.
struct SmallServer {
  ModelText text = small_model_text();
  EngineLimits limits{
      .vocab_size = 1000,
      .num_sequence_tokens_max = 256,
      .n_max = 128,
      .logprobs_max = 20,
      .max_num_seqs = 64,
      .max_num_live_seqs = 1024,
      .block_size = 16,
      .num_blocks = 1024,
  };
  GenerationDefaults defaults;
  std::vector<std::string> names = {"tiny", "org/tiny"};
  RequestContext context{text, limits, defaults, names};
};

inline const RequestContext& small_context() {
  static const auto server = std::make_unique<const SmallServer>();
  return server->context;
}

enum class Endpoint { kCompletions, kChat, kGenerate, kTokenize, kDetokenize, kAbort };

inline constexpr Endpoint kEndpoints[] = {
    Endpoint::kCompletions,
    Endpoint::kChat,
    Endpoint::kGenerate,
    Endpoint::kTokenize,
    Endpoint::kDetokenize,
    Endpoint::kAbort,
};

// Nothing, or why the endpoint refuses the body. A chat is rendered too, as the server does next.
inline std::optional<Error> refusal(Endpoint endpoint, std::string_view body) {
  const RequestContext& context = small_context();
  const auto error_of = [](const auto& result) -> std::optional<Error> {
    if (result) return std::nullopt;
    return result.error();
  };
  switch (endpoint) {
    case Endpoint::kCompletions:
      return error_of(read_completion_request(body, context));
    case Endpoint::kChat: {
      const Result<GenerationRequest> request = read_chat_request(body, context);
      if (!request) return request.error();
      return error_of(render_chat(context.text, std::get<ChatInput>(request->prompts.front())));
    }
    case Endpoint::kGenerate:
      return error_of(read_native_request(body, context));
    case Endpoint::kTokenize: {
      const Result<TokenizeRequest> request = read_tokenize_request(body, context);
      if (!request) return request.error();
      return error_of(tokenize_answer(*request, context.text, 256, {}));
    }
    case Endpoint::kDetokenize: {
      const Result<DetokenizeRequest> request = read_detokenize_request(body, context);
      if (!request) return request.error();
      (void)detokenize_answer(*request, context.text);
      return std::nullopt;
    }
    case Endpoint::kAbort:
      return error_of(read_abort_request(body));
  }
  return std::nullopt;
}

struct RequestCase {
  std::string_view id;  // of the table of bad inputs: "C12"
  Endpoint endpoint = Endpoint::kCompletions;
  // A whole body, or fields that are added to a good one.
  std::string body;
  int status = 200;
  std::string_view code = {};
  std::string_view param = {};
};

// What is wrong with the JSON body of an answered error, or "".
inline std::string fault_of_error_body(const ApiError& error) {
  const std::string body = to_json(error);
  const Result<json::value> parsed = parse_json(body);
  if (!parsed) return "the error is no JSON: " + parsed.error().message;
  const json::object& fields = parsed->at("error").as_object();
  const bool is_whole = parsed->as_object().size() == 1 && fields.size() == 4 &&
                        fields.contains("message") && fields.contains("type") &&
                        fields.contains("param") && fields.contains("code");
  if (!is_whole) return "not OpenAI's four keys: " + body;
  const std::string_view message = fields.at("message").as_string();
  if (message.empty() || message.size() > 2500 || !is_valid_utf8(message)) return "bad message";
  for (const char c : message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return "a control character";
  }
  if (fields.at("type") != json::value(error.type)) return "another type";
  return "";
}

inline std::string whole_body(const RequestCase& c) {
  if (c.body.starts_with('{')) return c.body;
  std::string_view good;
  switch (c.endpoint) {
    case Endpoint::kCompletions:
      good = R"("model": "tiny", "prompt": "Hi")";
      break;
    case Endpoint::kChat:
      good = R"("model": "tiny", "messages": [{"role": "user", "content": "Hi"}])";
      break;
    case Endpoint::kGenerate:
    case Endpoint::kTokenize:
    case Endpoint::kDetokenize:
    case Endpoint::kAbort:
      break;
  }
  return fmt::format("{{{}{}{}}}", good, good.empty() || c.body.empty() ? "" : ", ", c.body);
}

// How the answer to a case differs from what it says, or "".
inline std::string fault_of(const RequestCase& c) {
  const std::string body = whole_body(c);
  const std::optional<Error> error = refusal(c.endpoint, body);
  const std::string_view start = std::string_view(body).substr(0, 300);
  if (!error) {
    return c.status == 200 ? "" : fmt::format("{} was accepted: {}", c.id, start);
  }
  const ApiError answer = to_api_error(*error);
  const bool is_expected =
      answer.status == c.status && answer.code == c.code && answer.param.value_or("") == c.param;
  if (!is_expected) {
    return fmt::format(
        "{}: {} {} at '{}' ({}) for {}",
        c.id,
        answer.status,
        answer.code,
        answer.param.value_or(""),
        answer.message,
        start
    );
  }
  const std::string fault = fault_of_error_body(answer);
  return fault.empty() ? "" : fmt::format("{}: {} for {}", c.id, fault, start);
}

}  // namespace millrace
