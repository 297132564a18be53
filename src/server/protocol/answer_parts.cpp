#include "server/protocol/answer_parts.h"

#include "base/clock.h"
#include "server/protocol/json_text.h"

namespace millrace {
namespace {

void append_envelope_head(
    const GenerationRequest& request,
    const AnswerIdentity& identity,
    std::string_view object,
    std::string& head
) {
  head += "{\"id\":";
  append_json_string(identity.id, head);
  head += ",\"object\":";
  append_json_string(object, head);
  head += ",\"created\":";
  append_json_integer(identity.created_s, head);
  head += ",\"model\":";
  append_json_string(request.model, head);
  head += ",\"system_fingerprint\":";
  append_json_string(identity.system_fingerprint, head);
  head += ",\"choices\":[";
}

void append_duration_ms(
    const std::optional<TimePoint>& from, const std::optional<TimePoint>& to, std::string& out
) {
  if (!from || !to) {
    out += "null";
  } else {
    append_json_number(to_milliseconds(*to - *from), out);
  }
}

// `count` events in the time between; null where it is not known or nothing took any time.
void append_rate(
    int64_t count,
    const std::optional<TimePoint>& from,
    const std::optional<TimePoint>& to,
    std::string& out
) {
  if (!from || !to || *to <= *from) {
    out += "null";
  } else {
    append_json_number(static_cast<double>(count) / to_seconds(*to - *from), out);
  }
}

}  // namespace

void append_usage(const Usage& usage, std::string& out) {
  out += "{\"prompt_tokens\":";
  append_json_integer(usage.num_prompt_tokens, out);
  out += ",\"completion_tokens\":";
  append_json_integer(usage.num_output_tokens, out);
  out += ",\"total_tokens\":";
  append_json_integer(usage.num_prompt_tokens + usage.num_output_tokens, out);
  out += ",\"prompt_tokens_details\":{\"cached_tokens\":";
  append_json_integer(usage.num_cached_tokens, out);
  out += "},\"completion_tokens_details\":{\"reasoning_tokens\":0}}";
}

void append_stop_reason(const Ending& ending, std::string& out) {
  if (const TokenId* id = std::get_if<TokenId>(&ending.stop_reason)) {
    append_json_integer(*id, out);
  } else if (const std::string* text = std::get_if<std::string>(&ending.stop_reason)) {
    append_json_string(*text, out);
  } else {
    out += "null";
  }
}

void append_token_ids(std::span<const TokenId> ids, std::string& out) {
  out += '[';
  for (size_t i = 0; i < ids.size(); ++i) {
    if (i > 0) out += ',';
    append_json_integer(ids[i], out);
  }
  out += ']';
}

void append_token_ids(std::span<const SampledToken> tokens, std::string& out) {
  out += '[';
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    append_json_integer(tokens[i].id, out);
  }
  out += ']';
}

void append_timings(const SequenceTimings& timings, std::string& out) {
  const int32_t num_computed = timings.num_prompt_tokens - timings.num_cached_tokens;
  out += "{\"queue_ms\":";
  append_duration_ms(timings.arrival, timings.first_scheduled, out);
  out += ",\"prefill_ms\":";
  append_duration_ms(timings.first_scheduled, timings.first_token, out);
  out += ",\"decode_ms\":";
  append_duration_ms(timings.first_token, timings.last_token, out);
  out += ",\"num_preemptions\":";
  append_json_integer(timings.num_preemptions, out);
  out += ",\"num_recomputed_tokens\":";
  append_json_integer(timings.num_recomputed_tokens, out);
  out += ",\"cache_n\":";
  append_json_integer(timings.num_cached_tokens, out);
  out += ",\"prompt_n\":";
  append_json_integer(num_computed, out);
  out += ",\"prompt_per_second\":";
  append_rate(num_computed, timings.first_scheduled, timings.first_token, out);
  out += ",\"predicted_n\":";
  append_json_integer(timings.num_output_tokens, out);
  out += ",\"predicted_per_second\":";
  // The first token belongs to the prompt's time.
  append_rate(timings.num_output_tokens - 1, timings.first_token, timings.last_token, out);
  out += '}';
}

AnswerEnvelope::AnswerEnvelope(
    const GenerationRequest& request,
    AnswerIdentity identity,
    std::string_view object,
    std::string_view chunk_object
)
    : request_(request), identity_(std::move(identity)), object_(object), chunk_head_("data: ") {
  append_envelope_head(request_, identity_, chunk_object, chunk_head_);
}

std::optional<std::string_view> AnswerEnvelope::constant_chunk_end() const {
  if (request_.continuous_usage_stats) return std::nullopt;
  return request_.include_usage ? ",\"usage\":null}\n\n" : "}\n\n";
}

void AnswerEnvelope::append_chunk_end(
    const Usage& usage, const SequenceTimings* timings, std::string& out
) const {
  if (request_.return_timings && timings != nullptr) {
    out += ",\"timings\":";
    append_timings(*timings, out);
  }
  if (request_.continuous_usage_stats) {
    out += ",\"usage\":";
    append_usage(usage, out);
  } else if (request_.include_usage) {
    out += ",\"usage\":null";
  }
  out += "}\n\n";
}

void AnswerEnvelope::append_stream_end(const Usage& usage, std::string& out) const {
  if (request_.include_usage) {
    out += chunk_head_;
    out += "],\"usage\":";
    append_usage(usage, out);
    out += "}\n\n";
  }
  out += kStreamEnd;
}

void AnswerEnvelope::append_head(std::string& out) const {
  append_envelope_head(request_, identity_, object_, out);
}

void AnswerEnvelope::append_choice_timings(const SequenceTimings& timings, std::string& out) const {
  if (!request_.return_timings || request_.num_choices() == 1) return;
  out += ",\"timings\":";
  append_timings(timings, out);
}

void AnswerEnvelope::append_end(const GenerationResult& result, std::string& out) const {
  if (request_.return_timings && request_.num_choices() == 1) {
    for (const PromptResult& prompt : result.prompts) {
      for (const ChoiceResult& choice : prompt.choices) {
        out += ",\"timings\":";
        append_timings(choice.timings, out);
      }
    }
  }
  out += ",\"usage\":";
  append_usage(result.usage, out);
  out += '}';
}

}  // namespace millrace
