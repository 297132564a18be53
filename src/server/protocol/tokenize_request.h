// /tokenize and /detokenize, in vLLM's shapes: reads their bodies and writes their answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/protocol/generation_request.h"

namespace millrace {

struct TokenizeRequest {
  PromptInput input;  // text or a chat
  bool add_special_tokens = true;
  bool return_token_strs = false;  // the tokens as the vocabulary writes them
};

struct DetokenizeRequest {
  std::vector<TokenId> tokens;
};

// The error's `where` is the JSON path, its `reason` OpenAI's error code. Pure; any thread.
Result<TokenizeRequest> read_tokenize_request(std::string_view body, const RequestContext& context);
Result<DetokenizeRequest> read_detokenize_request(
    std::string_view body, const RequestContext& context
);

// {"count", "max_model_len", "tokens", "token_strs"}. `now`: for templates that print the date. An
// error if the model has no template, or the template refuses the chat.
Result<std::string> tokenize_answer(
    const TokenizeRequest& request,
    const ModelText& text,
    int32_t max_model_len,
    std::chrono::local_seconds now
);

// {"prompt"}: the text with its special tokens, U+FFFD for what is not UTF-8.
std::string detokenize_answer(const DetokenizeRequest& request, const ModelText& text);

}  // namespace millrace
