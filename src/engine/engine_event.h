// What an engine tells about a request: values, in order.
//
// For each of the n choices: its TokenEvents in order, then one FinishedEvent and nothing after it.
// For a request with prompt_logprobs: PromptLogprobsEvents in the order of positions, all of them
// before the first TokenEvent of choice 0. A preempted sequence repeats nothing.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/id.h"
#include "sampling/sampler.h"
#include "sched/finished_event.h"

namespace millrace {

// One output token. Those of one step have the same time: with speculation it may be several.
struct TokenEvent {
  RequestId request;
  int32_t choice = 0;
  SampledToken token;
  bool is_stop_token = false;     // it ends the choice and is no part of the text
  int32_t num_cached_tokens = 0;  // SequenceTimings'
  TimePoint when;
};

// Logprobs of the prompt tokens first_position, first_position + 1, ...; each list is the token
// itself, then the most likely others. Position 0 has none: nothing comes before it.
struct PromptLogprobsEvent {
  RequestId request;
  int32_t first_position = 1;
  std::vector<std::vector<TokenLogprob>> logprobs;
};

using EngineEvent = std::variant<TokenEvent, PromptLogprobsEvent, FinishedEvent>;

RequestId request_of(const EngineEvent& event);

}  // namespace millrace
