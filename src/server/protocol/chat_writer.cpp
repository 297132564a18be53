#include "server/protocol/chat_writer.h"

#include "base/prefetch.h"
#include "server/protocol/json_text.h"

namespace millrace {

ChatWriter::ChatWriter(
    const GenerationRequest& request, const Tokenizer& tokenizer, AnswerIdentity identity
)
    : request_(request),
      envelope_(request, std::move(identity), "chat.completion", "chat.completion.chunk"),
      logprobs_(request, tokenizer),
      tells_tokens_(request.fields.sampling.logprobs.has_value() || request.return_token_ids) {
  const auto chunk_end = envelope_.constant_chunk_end();
  if (chunk_end && !tells_tokens_) {
    plain_end_ = "\"},\"logprobs\":null,\"finish_reason\":null}]";
    *plain_end_ += *chunk_end;
  }
}

void ChatWriter::begin(std::span<const PromptResult> prompts, std::string& out) {
  Usage usage;
  for (const PromptResult& prompt : prompts) {
    usage.num_prompt_tokens += static_cast<int64_t>(prompt.prompt.size());
    usage.num_cached_tokens += prompt.num_cached_tokens;
  }
  for (int32_t choice = 0; choice < request_.num_choices(); ++choice) {
    out += envelope_.chunk_head();
    out += "{\"index\":";
    append_json_integer(choice, out);
    out += ",\"delta\":{\"role\":\"assistant\",\"content\":\"\"}";
    out += ",\"logprobs\":null,\"finish_reason\":null}]";
    if (choice == 0 && request_.return_token_ids && !prompts.empty()) {
      out += ",\"prompt_token_ids\":";
      append_token_ids(prompts.front().prompt, out);
    }
    envelope_.append_chunk_end(usage, nullptr, out);
  }
}

void ChatWriter::append_logprobs(std::span<const SampledToken> tokens, std::string& out) const {
  out += ",\"logprobs\":";
  if (request_.fields.sampling.logprobs && !tokens.empty()) {
    logprobs_.append_chat(tokens, out);
  } else {
    out += "null";
  }
}

void ChatWriter::append_content_chunk(
    const ChoiceDelta& delta, const Usage& usage, std::string& out
) const {
  out += envelope_.chunk_head();
  out += "{\"index\":";
  append_json_integer(delta.choice, out);
  out += ",\"delta\":{\"content\":\"";
  append_json_escaped(delta.text, out);
  if (plain_end_) {
    out += *plain_end_;
    return;
  }
  out += "\"}";
  append_logprobs(delta.tokens, out);
  out += ",\"finish_reason\":null";
  if (request_.return_token_ids) {
    out += ",\"token_ids\":";
    append_token_ids(delta.tokens, out);
  }
  out += "}]";
  envelope_.append_chunk_end(usage, nullptr, out);
}

// REQUIRES: the delta has an ending.
void ChatWriter::append_last_chunk(const ChoiceDelta& delta, const Usage& usage, std::string& out)
    const {
  out += envelope_.chunk_head();
  out += "{\"index\":";
  append_json_integer(delta.choice, out);
  out += ",\"delta\":{}";
  append_logprobs(delta.tokens, out);
  out += ",\"finish_reason\":";
  append_json_string(delta.ending->finish_reason, out);
  out += ",\"stop_reason\":";
  append_stop_reason(*delta.ending, out);
  if (request_.return_token_ids) {
    out += ",\"token_ids\":";
    append_token_ids(delta.tokens, out);
  }
  out += "}]";
  envelope_.append_chunk_end(usage, delta.timings, out);
}

void ChatWriter::delta(const ChoiceDelta& delta, const Usage& usage, std::string& out) {
  const bool has_tokens = tells_tokens_ && !delta.tokens.empty();
  if (!delta.text.empty() || (has_tokens && delta.ending == nullptr)) {
    append_content_chunk(delta, usage, out);
    if (delta.ending == nullptr) return;
    ChoiceDelta last = delta;
    last.tokens = {};  // told with the content
    append_last_chunk(last, usage, out);
  } else if (delta.ending != nullptr) {
    append_last_chunk(delta, usage, out);
  }
}

void ChatWriter::prefetch() const {
  millrace::prefetch(envelope_.chunk_head());
  if (plain_end_) millrace::prefetch(*plain_end_);
}

void ChatWriter::end(const Usage& usage, std::string& out) {
  envelope_.append_stream_end(usage, out);
}

void ChatWriter::append_choice(int32_t index, const ChoiceResult& choice, std::string& out) const {
  out += "{\"index\":";
  append_json_integer(index, out);
  out += ",\"message\":{\"role\":\"assistant\",\"content\":";
  append_json_string(choice.text, out);
  out += ",\"refusal\":null}";
  append_logprobs(choice.tokens, out);
  out += ",\"finish_reason\":";
  append_json_string(choice.ending.finish_reason, out);
  out += ",\"stop_reason\":";
  append_stop_reason(choice.ending, out);
  if (request_.return_token_ids) {
    out += ",\"token_ids\":";
    append_token_ids(choice.tokens, out);
  }
  envelope_.append_choice_timings(choice.timings, out);
  out += '}';
}

std::string ChatWriter::whole(const GenerationResult& result) {
  std::string out;
  envelope_.append_head(out);
  int32_t index = 0;
  for (const PromptResult& prompt : result.prompts) {
    for (const ChoiceResult& choice : prompt.choices) {
      if (index > 0) out += ',';
      append_choice(index++, choice, out);
    }
  }
  out += ']';
  for (const PromptResult& prompt : result.prompts) {  // of a chat there is one
    if (request_.fields.sampling.prompt_logprobs) {
      out += ",\"prompt_logprobs\":";
      logprobs_.append_prompt_logprobs(prompt.prompt_logprobs, out);
    }
    if (request_.return_token_ids) {
      out += ",\"prompt_token_ids\":";
      append_token_ids(prompt.prompt, out);
    }
  }
  envelope_.append_end(result, out);
  return out;
}

}  // namespace millrace
