// What a client asks to have generated, whichever API it said so in: JSON bodies are read into this
// (completion_request.h, chat_request.h, native_request.h). A value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/id.h"
#include "engine/engine.h"
#include "model/generation_defaults.h"
#include "server/generation_fields.h"
#include "server/model_text.h"
#include "text/chat_template.h"

namespace millrace {

enum class Api {
  kCompletions,  // OpenAI's /v1/completions
  kChat,         // OpenAI's /v1/chat/completions
  kNative,       // SGLang's /generate
};

// Text to be tokenized, token ids as they are, or a chat to be rendered, whose `now` is the
// renderer's to set.
using PromptInput = std::variant<std::string, std::vector<TokenId>, ChatInput>;

struct GenerationRequest {
  Api api = Api::kCompletions;
  std::string model;       // as the client named it, for the answer
  std::string request_id;  // the client's own (vLLM's request_id, SGLang's rid); empty: none
  std::string tenant;      // whose key the client showed (ApiKeys::tenant_of); empty: nobody's

  std::vector<PromptInput> prompts;  // at least one; a chat: exactly one
  bool is_prompt_list = false;       // the native API answers a list with a list
  // Those of the tokenizer's post-processor, for text and, where asked for, on top of a template's.
  bool add_special_tokens = true;
  std::optional<int32_t> truncate_prompt_tokens;  // keeps the last so many tokens

  GenerationFields fields;
  // What the client asked for. 0: nothing is generated, the prompt is only echoed. none: the API's
  // or the model author's default, as far as it fits. `fields.sampling.max_tokens` is only a bound
  // until the prompt's length is known.
  std::optional<int32_t> max_tokens;
  int32_t max_tokens_default = 16;

  bool is_stream = false;
  bool include_usage = false;               // one last chunk with the usage
  bool continuous_usage_stats = false;      // the usage so far in every chunk
  bool return_token_ids = false;            // vLLM: token ids of prompt and choices in the answer
  bool return_tokens_as_token_ids = false;  // vLLM: "token_id:17" in place of text in logprobs
  bool return_text_in_logprobs = false;     // SGLang: each token's text beside its logprob
  bool return_timings = false;              // the answer tells what it waited for
  std::string cache_salt;                   // empty: none

  int32_t num_choices() const { return static_cast<int32_t>(prompts.size()) * fields.sampling.n; }
};

// What requests are read against. Borrowed and immutable while the server runs.
struct RequestContext {
  const ModelText& text;
  const EngineLimits& limits;
  const GenerationDefaults& defaults;  // the model author's sampling defaults
  const std::vector<std::string>& served_model_names;
  int32_t num_prompts_max = 1024;  // of one completion request
};

}  // namespace millrace
