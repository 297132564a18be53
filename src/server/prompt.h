// From what a person or a client wrote to the token ids of a prompt.
#pragma once

#include <chrono>
#include <string_view>
#include <vector>

#include "base/id.h"
#include "base/json.h"
#include "base/result.h"
#include "server/model_text.h"
#include "text/chat_template.h"

namespace millrace {

// A chat as a request states it, checked and prepared as the server does (protocol/chat_input.h).
// `now`: for templates that print the date. `generation_prompt`: whether the assistant's turn is
// begun where the object does not say. The error's `where` is the JSON path.
Result<ChatInput> read_chat(
    const json::object& object, std::chrono::local_seconds now, bool generation_prompt
);

// The same with messages and tools as they stand, for a template to see: as Hugging Face's
// apply_chat_template is called.
Result<ChatInput> read_raw_chat(
    const json::object& object, std::chrono::local_seconds now, bool generation_prompt
);

// The chat as the model's template writes it. kUnsupported for a model without a template, and for
// what the chat states and the template never reads (ChatTemplate::unread). What a template refuses
// has the reason chat_template_error and the template's words, cut to 200 bytes.
Result<RenderedChat> render_chat(const ModelText& model, const ChatInput& chat);

// The same whatever of the chat the template reads, as Hugging Face's apply_chat_template.
Result<RenderedChat> render_raw_chat(const ModelText& model, const ChatInput& chat);

// Plain text, with the special tokens that the tokenizer's post-processor adds.
std::vector<TokenId> tokenize_text(const ModelText& model, std::string_view text);

// A rendered chat. Special tokens are recognised in the template's own text only: what stands in a
// message stays plain text. `add_special_tokens`: those of the post-processor, beside the
// template's.
std::vector<TokenId> tokenize_chat(
    const ModelText& model, const RenderedChat& chat, bool add_special_tokens = false
);

// "prompt_token_ids" of a request: a list of ids; `where` is its JSON path.
Result<std::vector<TokenId>> read_token_ids(std::string_view where, const json::value& value);

}  // namespace millrace
