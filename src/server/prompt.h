// From what a person or a client wrote to the token ids of a prompt.
#pragma once

#include <chrono>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/json.h"
#include "base/result.h"
#include "server/model_text.h"

namespace millrace {

struct ChatPrompt {
  json::array messages;  // {"role", "content", ...}
  json::array tools;     // empty: none
  bool add_generation_prompt = true;
  json::object chat_template_kwargs;          // passed to the template
  std::chrono::system_clock::time_point now;  // for templates that print the date
};

// Plain text, with the special tokens that the tokenizer's post-processor adds.
std::vector<TokenId> tokenize_text(const ModelText& model, std::string_view text);

// A chat through the model's template. Special tokens are recognised in the template's own text
// only: what stands in a message stays plain text. kUnsupported for a model without a template.
Result<std::vector<TokenId>> tokenize_chat(const ModelText& model, const ChatPrompt& chat);

// "prompt_token_ids" of a request: a list of ids; `where` is its JSON path.
Result<std::vector<TokenId>> read_token_ids(std::string_view where, const json::value& value);

}  // namespace millrace
