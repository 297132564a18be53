#include "server/protocol/native_writer.h"

#include <algorithm>

#include "base/clock.h"
#include "server/protocol/json_text.h"
#include "server/protocol/logprob_json.h"

namespace millrace {
namespace {

void append_comma(std::string& out) {
  if (!out.empty()) out += ',';
}

// {"type":"stop","matched":...}, {"type":"length","length":...} or {"type":"abort","message":...}
void append_finish_reason(
    const Ending& ending, std::optional<TokenId> last_token, int64_t num_tokens, std::string& out
) {
  if (ending.finish_reason == "length") {
    out += "{\"type\":\"length\",\"length\":";
    append_json_integer(num_tokens, out);
  } else if (ending.finish_reason == "abort") {
    out += "{\"type\":\"abort\",\"message\":\"aborted on request\"";
  } else {
    out += "{\"type\":";
    append_json_string(ending.finish_reason, out);
    out += ",\"matched\":";
    // The model's own end is a token too.
    const bool is_own_end = std::holds_alternative<std::monostate>(ending.stop_reason);
    if (is_own_end && last_token) {
      append_json_integer(*last_token, out);
    } else {
      append_stop_reason(ending, out);
    }
  }
  out += '}';
}

}  // namespace

NativeWriter::NativeWriter(
    const GenerationRequest& request, const Tokenizer& tokenizer, AnswerIdentity identity
)
    : request_(request), tokenizer_(tokenizer) {
  append_json_string(identity.id, id_);
}

// [logprob, id, text]; the text is null unless it was asked for.
void NativeWriter::append_logprob(TokenId id, std::optional<float> logprob, std::string& out)
    const {
  out += '[';
  if (logprob) {
    append_json_logprob(*logprob, out);
  } else {
    out += "null";
  }
  out += ',';
  append_json_integer(id, out);
  out += ',';
  if (request_.return_text_in_logprobs) {
    append_json_string(tokenizer_.token_bytes(id), out);
  } else {
    out += "null";
  }
  out += ']';
}

// The most likely at one position, without the token itself where it is not among them.
void NativeWriter::append_top_logprobs(
    std::span<const TokenLogprob> logprobs, int32_t num_top, std::string& out
) const {
  const BestFirst best(logprobs);
  out += '[';
  for (size_t place = 0; place < std::min(best.size(), static_cast<size_t>(num_top)); ++place) {
    if (place > 0) out += ',';
    append_logprob(best[place].id, best[place].logprob, out);
  }
  out += ']';
}

bool NativeWriter::is_list() const {
  return request_.is_prompt_list || request_.num_choices() != 1;
}

NativeWriter::PromptPart NativeWriter::prompt_part(const PromptResult& prompt) const {
  PromptPart part;
  part.num_tokens = static_cast<int64_t>(prompt.prompt.size());
  const std::optional<int32_t>& num_top = request_.fields.sampling.prompt_logprobs;
  if (!num_top || prompt.prompt.empty()) return part;
  std::string top;
  for (size_t i = 0; i < prompt.prompt.size(); ++i) {
    append_comma(part.logprobs);
    append_comma(top);
    const bool is_known = i > 0 && i <= prompt.prompt_logprobs.size();
    if (is_known && !prompt.prompt_logprobs[i - 1].empty()) {
      const std::vector<TokenLogprob>& logprobs = prompt.prompt_logprobs[i - 1];
      append_logprob(prompt.prompt[i], logprobs.front().logprob, part.logprobs);
      append_top_logprobs(logprobs, *num_top, top);
    } else {
      append_logprob(prompt.prompt[i], std::nullopt, part.logprobs);
      top += "null";
    }
  }
  part.logprobs = ",\"input_token_logprobs\":[" + part.logprobs + ']';
  if (*num_top > 0) part.logprobs += ",\"input_top_logprobs\":[" + top + ']';
  return part;
}

void NativeWriter::advance(
    Progress& progress, std::string_view text, std::span<const SampledToken> tokens
) const {
  append_json_escaped(text, progress.text);
  const std::optional<int32_t>& num_top = request_.fields.sampling.logprobs;
  for (const SampledToken& token : tokens) {
    append_comma(progress.ids);
    append_json_integer(token.id, progress.ids);
    if (!num_top || token.logprobs.empty()) continue;
    append_comma(progress.logprobs);
    append_logprob(token.id, token.logprobs.front().logprob, progress.logprobs);
    if (*num_top == 0) continue;
    append_comma(progress.top_logprobs);
    append_top_logprobs(token.logprobs, *num_top, progress.top_logprobs);
  }
  progress.num_tokens += static_cast<int64_t>(tokens.size());
  if (!tokens.empty()) progress.last_token = tokens.back().id;
}

// The members of one choice's object.
void NativeWriter::append_members(
    const Progress& progress, const PromptPart& prompt, const Meta& meta, std::string& out
) const {
  out += "\"text\":\"";
  out += progress.text;
  out += "\",\"output_ids\":[";
  out += progress.ids;
  out += "],\"meta_info\":{\"id\":";
  out += id_;
  out += ",\"finish_reason\":";
  if (meta.ending == nullptr) {
    out += "null";
  } else {
    append_finish_reason(*meta.ending, progress.last_token, progress.num_tokens, out);
  }
  out += ",\"prompt_tokens\":";
  append_json_integer(prompt.num_tokens, out);
  out += ",\"completion_tokens\":";
  append_json_integer(progress.num_tokens, out);
  if (meta.num_cached_tokens) {
    out += ",\"cached_tokens\":";
    append_json_integer(*meta.num_cached_tokens, out);
  }
  out += prompt.logprobs;
  const std::optional<int32_t>& num_top = request_.fields.sampling.logprobs;
  if (num_top) out += ",\"output_token_logprobs\":[" + progress.logprobs + ']';
  if (num_top && *num_top > 0) out += ",\"output_top_logprobs\":[" + progress.top_logprobs + ']';
  if (meta.timings != nullptr && meta.timings->last_token) {
    out += ",\"e2e_latency\":";
    append_json_number(to_seconds(*meta.timings->last_token - meta.timings->arrival), out);
  }
  if (meta.timings != nullptr && request_.return_timings) {
    out += ",\"timings\":";
    append_timings(*meta.timings, out);
  }
  out += '}';
}

void NativeWriter::begin(std::span<const PromptResult> prompts, std::string&) {
  for (const PromptResult& prompt : prompts) prompts_.push_back(prompt_part(prompt));
  prompts_.resize(request_.prompts.size());
  progress_.resize(static_cast<size_t>(request_.num_choices()));
}

void NativeWriter::delta(const ChoiceDelta& delta, const Usage& usage, std::string& out) {
  if (delta.text.empty() && delta.tokens.empty() && delta.ending == nullptr) return;
  Progress& progress = progress_[static_cast<size_t>(delta.choice)];
  advance(progress, delta.text, delta.tokens);

  Meta meta = {.ending = delta.ending, .timings = delta.timings, .num_cached_tokens = {}};
  // The usage does not say which of several prompts was cached.
  if (delta.timings != nullptr) {
    meta.num_cached_tokens = delta.timings->num_cached_tokens;
  } else if (request_.prompts.size() == 1) {
    meta.num_cached_tokens = usage.num_cached_tokens;
  }
  out += "data: {";
  const auto prompt = static_cast<size_t>(delta.choice / request_.fields.sampling.n);
  append_members(progress, prompts_[prompt], meta, out);
  if (is_list()) {
    out += ",\"index\":";
    append_json_integer(delta.choice, out);
  }
  out += "}\n\n";
}

void NativeWriter::end(const Usage&, std::string& out) {
  out += kStreamEnd;
}

std::string NativeWriter::whole(const GenerationResult& result) {
  std::string out = is_list() ? "[" : "";
  for (const PromptResult& prompt : result.prompts) {
    const PromptPart part = prompt_part(prompt);
    for (const ChoiceResult& choice : prompt.choices) {
      Progress progress;
      advance(progress, choice.text, choice.tokens);
      out += out.size() > 1 ? ",{" : "{";
      append_members(
          progress,
          part,
          {.ending = &choice.ending,
           .timings = &choice.timings,
           .num_cached_tokens = choice.timings.num_cached_tokens},
          out
      );
      out += '}';
    }
  }
  if (is_list()) out += ']';
  return out;
}

}  // namespace millrace
