// The parts that several answers share. Each function appends one JSON value.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/protocol/answer_writer.h"
#include "server/protocol/generation_request.h"
#include "server/protocol/generation_result.h"

namespace millrace {

// The event that ends every stream.
inline constexpr std::string_view kStreamEnd = "data: [DONE]\n\n";

void append_usage(const Usage& usage, std::string& out);

// vLLM's stop_reason: the stop string, the id of the stop token, or null for the model's own end.
void append_stop_reason(const Ending& ending, std::string& out);

// [1,2,3]
void append_token_ids(std::span<const TokenId> ids, std::string& out);
void append_token_ids(std::span<const SampledToken> tokens, std::string& out);

// What one choice waited for. Under llama.cpp's names: cache_n and prompt_n (prompt tokens that a
// cache saved from being computed, and the others), predicted_n, and both rates in tokens a second.
// Of ours: queue_ms (arrival to first step), prefill_ms (to the first token), decode_ms (from the
// first token to the last, pauses included), num_preemptions and num_recomputed_tokens (what the
// pauses cost). null: it never came to that.
void append_timings(const SequenceTimings& timings, std::string& out);

// What surrounds the choices in OpenAI's answers, rendered once for a call.
class AnswerEnvelope {
 public:
  // `object`: of whole answers; `chunk_object`: of the events of a stream. `request` is borrowed,
  // and both objects are of static storage.
  AnswerEnvelope(
      const GenerationRequest& request,
      AnswerIdentity identity,
      std::string_view object,
      std::string_view chunk_object
  );

  // `data: {"id":... ,"choices":[`
  std::string_view chunk_head() const { return chunk_head_; }

  // What follows the `]` of a chunk's choices: the timings of the one choice in it, where they were
  // asked for and are known; the usage, if chunks tell it; the end of the event.
  void append_chunk_end(const Usage& usage, const SequenceTimings* timings, std::string& out) const;

  // The same for all chunks without timings, unless it depends on the usage so far.
  std::optional<std::string_view> constant_chunk_end() const;

  // The usage chunk, if it was asked for, and [DONE].
  void append_stream_end(const Usage& usage, std::string& out) const;

  // The same for whole answers. Timings stand beside the choices where there is only one choice,
  // and otherwise in each.
  void append_head(std::string& out) const;
  void append_choice_timings(const SequenceTimings& timings, std::string& out) const;
  void append_end(const GenerationResult& result, std::string& out) const;

 private:
  const GenerationRequest& request_;
  AnswerIdentity identity_;
  std::string_view object_;
  std::string chunk_head_;
};

}  // namespace millrace
