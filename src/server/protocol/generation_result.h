// What came of a GenerationRequest, piece by piece and whole: what answers are written from.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/id.h"
#include "sampling/sampler.h"
#include "sched/finished_event.h"

namespace millrace {

struct Usage {
  int64_t num_prompt_tokens = 0;  // of each prompt once, whatever n is
  int64_t num_cached_tokens = 0;  // of them
  int64_t num_output_tokens = 0;  // of all choices, with the tokens that stopped them
};

// How a choice ended, in the API's words.
struct Ending {
  std::string_view finish_reason = "stop";  // "stop" or "length"; static storage
  // What stopped it, if it was not the model's own end: vLLM's stop_reason.
  std::variant<std::monostate, TokenId, std::string> stop_reason;
};

// What is new of one choice. Over all deltas of a choice, the texts add up to its text and the
// tokens to its tokens.
struct ChoiceDelta {
  int32_t choice = 0;     // prompt * n + choice of that prompt
  std::string_view text;  // may be empty
  // The new tokens, with logprobs if they were asked for. Includes a token that ends the choice and
  // is no part of its text.
  std::span<const SampledToken> tokens;
  std::span<const int64_t> text_offsets;     // as ChoiceResult's
  const Ending* ending = nullptr;            // set with the last delta of a choice
  const SequenceTimings* timings = nullptr;  // set with the last delta too, where they are known
};

struct ChoiceResult {
  std::string text;  // with the prompt's in front, where it was to be echoed
  std::vector<SampledToken> tokens;
  // Where each token stands in the text, in characters (ChoiceText::text_offset); empty: no
  // logprobs were asked for.
  std::vector<int64_t> text_offsets;  // [num_tokens]
  Ending ending;
  SequenceTimings timings;
};

struct PromptResult {
  std::vector<TokenId> prompt;
  int32_t num_cached_tokens = 0;  // of the prompt, as far as it is known
  size_t num_echo_bytes = 0;      // of each choice's text: the prompt's
  // Of an echoed prompt whose logprobs are told: where its tokens stand in each choice's text.
  std::vector<int64_t> text_offsets;
  // Of each prompt position but the first: the token itself, then the most likely others. Empty
  // unless asked for.
  std::vector<std::vector<TokenLogprob>> prompt_logprobs;
  std::vector<ChoiceResult> choices;  // [n]
};

struct GenerationResult {
  std::vector<PromptResult> prompts;
  Usage usage;
};

}  // namespace millrace
