#include "server/protocol/completion_writer.h"

#include "base/prefetch.h"
#include "server/protocol/json_text.h"

namespace millrace {

CompletionWriter::CompletionWriter(
    const GenerationRequest& request, const Tokenizer& tokenizer, AnswerIdentity identity
)
    : request_(request),
      envelope_(request, std::move(identity), "text_completion", "text_completion"),
      logprobs_(request, tokenizer),
      tells_tokens_(request.fields.sampling.logprobs.has_value() || request.return_token_ids) {
  const auto chunk_end = envelope_.constant_chunk_end();
  if (chunk_end && !tells_tokens_) {
    plain_end_ = "\",\"logprobs\":null,\"finish_reason\":null}]";
    *plain_end_ += *chunk_end;
  }
}

bool CompletionWriter::echoes_logprobs() const {
  return request_.fields.echo && request_.fields.sampling.logprobs.has_value();
}

const PromptResult* CompletionWriter::prompt_of(int32_t choice) const {
  const auto prompt = static_cast<size_t>(choice / request_.fields.sampling.n);
  return prompt < prompts_.size() ? &prompts_[prompt] : nullptr;
}

void CompletionWriter::append_logprobs(const PromptResult* prompt, NewTokens news, std::string& out)
    const {
  out += ",\"logprobs\":";
  if (!request_.fields.sampling.logprobs) {
    out += "null";
    return;
  }
  std::vector<TokenAt> places;
  for (size_t i = 0; prompt != nullptr && i < prompt->prompt.size(); ++i) {
    const bool is_known = i > 0 && i <= prompt->prompt_logprobs.size();
    places.push_back({.id = prompt->prompt[i], .text_offset = prompt->text_offsets[i]});
    if (is_known) places.back().logprobs = prompt->prompt_logprobs[i - 1];
  }
  for (size_t i = 0; i < news.tokens.size(); ++i) {
    const SampledToken& token = news.tokens[i];
    places.push_back({token.id, token.logprobs, news.text_offsets[i]});
  }
  logprobs_.append_completion(places, out);
}

void CompletionWriter::begin(std::span<const PromptResult> prompts, std::string&) {
  if (!tells_tokens_) return;
  if (echoes_logprobs() || request_.return_token_ids) {
    prompts_.assign(prompts.begin(), prompts.end());
  }
  is_begun_.resize(static_cast<size_t>(request_.num_choices()));
}

void CompletionWriter::delta(const ChoiceDelta& delta, const Usage& usage, std::string& out) {
  const bool has_tokens = tells_tokens_ && !delta.tokens.empty();
  if (delta.text.empty() && !has_tokens && delta.ending == nullptr) return;

  out += envelope_.chunk_head();
  out += "{\"index\":";
  append_json_integer(delta.choice, out);
  out += ",\"text\":\"";
  append_json_escaped(delta.text, out);
  if (plain_end_ && delta.ending == nullptr) {
    out += *plain_end_;
    return;
  }
  out += '"';
  if (tells_tokens_) {
    append_tokens(delta, out);
  } else {
    out += ",\"logprobs\":null";
  }
  out += ",\"finish_reason\":";
  if (delta.ending == nullptr) {
    out += "null";
  } else {
    append_json_string(delta.ending->finish_reason, out);
    out += ",\"stop_reason\":";
    append_stop_reason(*delta.ending, out);
  }
  out += "}]";
  envelope_.append_chunk_end(usage, delta.timings, out);
}

void CompletionWriter::append_tokens(const ChoiceDelta& delta, std::string& out) {
  const auto choice = static_cast<size_t>(delta.choice);
  const bool is_first = !is_begun_[choice];
  is_begun_[choice] = true;
  const PromptResult* prompt = is_first ? prompt_of(delta.choice) : nullptr;
  append_logprobs(echoes_logprobs() ? prompt : nullptr, {delta.tokens, delta.text_offsets}, out);
  if (!request_.return_token_ids) return;
  if (prompt != nullptr) {
    out += ",\"prompt_token_ids\":";
    append_token_ids(prompt->prompt, out);
  }
  out += ",\"token_ids\":";
  append_token_ids(delta.tokens, out);
}

void CompletionWriter::prefetch() const {
  millrace::prefetch(envelope_.chunk_head());
  if (plain_end_) millrace::prefetch(*plain_end_);
}

void CompletionWriter::end(const Usage& usage, std::string& out) {
  envelope_.append_stream_end(usage, out);
}

void CompletionWriter::append_choice(
    int32_t index, const PromptResult& prompt, const ChoiceResult& choice, std::string& out
) const {
  out += "{\"index\":";
  append_json_integer(index, out);
  out += ",\"text\":";
  append_json_string(choice.text, out);
  append_logprobs(echoes_logprobs() ? &prompt : nullptr, {choice.tokens, choice.text_offsets}, out);
  out += ",\"finish_reason\":";
  append_json_string(choice.ending.finish_reason, out);
  out += ",\"stop_reason\":";
  append_stop_reason(choice.ending, out);
  if (request_.fields.sampling.prompt_logprobs) {
    out += ",\"prompt_logprobs\":";
    logprobs_.append_prompt_logprobs(prompt.prompt_logprobs, out);
  }
  if (request_.return_token_ids) {
    out += ",\"prompt_token_ids\":";
    append_token_ids(prompt.prompt, out);
    out += ",\"token_ids\":";
    append_token_ids(choice.tokens, out);
  }
  envelope_.append_choice_timings(choice.timings, out);
  out += '}';
}

std::string CompletionWriter::whole(const GenerationResult& result) {
  std::string out;
  envelope_.append_head(out);
  int32_t index = 0;
  for (const PromptResult& prompt : result.prompts) {
    for (const ChoiceResult& choice : prompt.choices) {
      if (index > 0) out += ',';
      append_choice(index++, prompt, choice, out);
    }
  }
  out += ']';
  envelope_.append_end(result, out);
  return out;
}

}  // namespace millrace
