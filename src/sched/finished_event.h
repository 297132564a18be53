// How a sequence ended: the last thing that is ever said about it, and said exactly once.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/id.h"
#include "base/result.h"

namespace millrace {

enum class FinishReason {
  kStop,       // the model chose an end-of-sequence token or one of stop_token_ids
  kLength,     // max_tokens, or the longest sequence that the model or the KV cache allows
  kCancelled,  // the caller asked, or the engine was shut down
  kDeadline,
  kError,  // FinishedEvent::error says what went wrong; other sequences are not touched
};

// "stop", "length", "cancelled", "deadline" or "error".
std::string_view name_of(FinishReason reason);

// When things happened to one sequence, and how often. An empty time: it never came to that.
struct SequenceTimings {
  TimePoint arrival;
  std::optional<TimePoint> first_scheduled;
  std::optional<TimePoint> first_token;
  std::optional<TimePoint> last_token;
  int32_t num_preemptions = 0;
  int32_t num_prompt_tokens = 0;
  int32_t num_output_tokens = 0;  // counts the token that stopped it
  int32_t num_cached_tokens = 0;  // prompt tokens that the prefix cache saved from being computed
  int32_t num_recomputed_tokens = 0;  // computed again after preemptions
};

struct FinishedEvent {
  RequestId request;
  int32_t choice = 0;                  // 0 .. n - 1
  int32_t num_choices_unfinished = 0;  // of the same request; 0: the request is over
  FinishReason reason = FinishReason::kStop;
  std::optional<TokenId> stop_token;  // with kStop: the last token, which is not part of the text
  std::optional<Error> error;         // with kError
  SequenceTimings timings;
  TimePoint when;
};

}  // namespace millrace
