// What one event of a stream, or a whole answer, says: the fields that times and counts are made
// of. The reader here reads any valid JSON (RFC 8259) in one pass without building a value;
// loadgen/event_reader.h is faster for events that look like one before.
//
// Shapes: chunks and answers of /v1/completions and /v1/chat/completions (OpenAI's API reference,
// and vLLM's, SGLang's, TensorRT-LLM's and llama-server's additions to it), and of SGLang's
// /generate.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace millrace::bench {

// Texts are views of the event: the inside of JSON strings, with their escapes. Of several choices
// in one event, the last that is not empty.
struct EventFields {
  bool has_choices = false;    // `choices` with at least one element
  bool is_native = false;      // of /generate: it has `meta_info`
  std::string_view text;       // choices[].text, .delta.content, .message.content; native: `text`
  std::string_view reasoning;  // .reasoning_content or .reasoning
  bool has_other_output = false;  // tool calls, a refusal, content in parts
  std::string_view finish_reason;
  std::optional<int64_t> completion_tokens, prompt_tokens, cached_tokens;
  std::optional<int64_t> num_token_ids;  // choices[].token_ids, together; native: output_ids
  bool is_error = false;
  std::string_view error_message;  // with is_error; may be empty

  bool has_output() const { return !text.empty() || !reasoning.empty() || has_other_output; }
};

enum class HoleKind { kString, kNumber, kIds };
enum class HoleTarget {
  kNothing,
  kText,
  kReasoning,
  kCompletionTokens,
  kPromptTokens,
  kCachedTokens,
  kTokenIds,
};

// A value that differs between events that are alike otherwise: the inside of a string, a number,
// or what stands between the brackets of an array of numbers.
struct Hole {
  HoleKind kind = HoleKind::kNumber;
  HoleTarget target = HoleTarget::kNothing;
  size_t begin = 0;
  size_t end = 0;
};

// The error says at which byte it is no JSON. `holes`, if given, gets those of this event, in
// order; the choice of strings that are holes is by place: texts and ids.
Result<EventFields> read_event(std::string_view json, std::vector<Hole>* holes = nullptr);

// Puts a hole's value where it belongs. False: a count that is not a whole number up to
// kTokenCountMax.
bool assign_hole(HoleTarget target, std::string_view value, int64_t num_ids, EventFields& fields);

}  // namespace millrace::bench
