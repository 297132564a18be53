// Whether what a server answered is what was asked for: the checks without which no figure of a
// load run is worth printing. Slow and thorough (JSON), for samples of what was received.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace millrace::bench {

// What was asked of a completion or chat request.
struct Asked {
  int64_t num_output_tokens = 0;  // with ignore_eos: exactly so many
};

struct StreamFacts {
  size_t num_events = 0;  // all: content, ending, usage, [DONE]
  int64_t num_prompt_tokens = 0;
};

// A whole stream of /v1/completions or /v1/chat/completions with include_usage and one choice: as
// many events with text as tokens were asked for, one finish_reason "length", after which no text
// comes, the usage with the asked number of tokens, and [DONE] as the last event.
Result<StreamFacts> check_stream(std::string_view body, const Asked& asked);

// The beginning of such a stream: nothing but events with text, of which the last may be cut.
Result<void> check_stream_beginning(std::string_view body);

// A whole answer: one choice that ended for its length, and the usage.
Result<void> check_answer(std::string_view body, const Asked& asked);

// {"error":{"message","type","param","code"}} with a message and a type.
Result<void> check_refusal(std::string_view body);

// The id of the first model of /v1/models.
Result<std::string> first_model_id(std::string_view body);

}  // namespace millrace::bench
