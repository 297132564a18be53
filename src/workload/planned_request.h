// What is to be asked of a server, before it is worded for an endpoint. Plain values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/id.h"

namespace millrace::bench {

struct PlannedMessage {
  std::string role;
  std::string content;
};

// Text, token ids, or a conversation. A chat endpoint gets text as one user message.
using PlannedPrompt = std::variant<std::string, std::vector<TokenId>, std::vector<PlannedMessage>>;

struct PlannedRequest {
  PlannedPrompt prompt;  // of a later turn: what is added to the conversation so far
  // As the dataset counts them, without a chat template; of a later turn: of what is added. 0 where
  // there was no codec to count with.
  int64_t num_prompt_tokens = 0;
  int64_t num_output_tokens = 0;  // asked for as the most, and exactly where EOS is ignored
  std::chrono::nanoseconds think_time{0};      // before a later turn is sent
  std::optional<std::chrono::nanoseconds> at;  // of a first turn of a trace: since its start
};

// Turns that follow one another, each with the answers before it in its prompt; mostly just one.
struct PlannedSession {
  std::vector<PlannedRequest> turns;  // at least one
};

}  // namespace millrace::bench
