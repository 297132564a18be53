// Runs many prompts through one engine at once and hands out their results in the order of the
// prompts. Used by one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "engine/engine.h"
#include "server/generation_fields.h"
#include "server/local_model.h"

namespace millrace {

// One prompt to continue, or the reason why it cannot be.
struct BatchItem {
  std::vector<TokenId> prompt;
  GenerationFields fields;
  std::optional<Error> error;
};

// One finished choice of one item.
struct ItemChoice {
  std::vector<TokenId> token_ids;
  std::vector<std::vector<TokenLogprob>> logprobs;  // per token; empty unless asked for
  std::string text;
  std::optional<std::string> stop_string;
  FinishedEvent finished;
};

struct ItemResult {
  std::vector<ItemChoice> choices;  // [n]; empty where error is set
  std::vector<std::vector<TokenLogprob>>
      prompt_logprobs;  // of the prompt tokens from the second on
  std::optional<Error> error;
};

struct BatchCallbacks {
  // Both return whether to go on: false where nobody reads any more.
  // Text of the first choice of an item as it comes.
  std::function<bool(size_t index, const std::string& text)> on_text = {};
  // Once for each item, in their order.
  std::function<bool(size_t index, const ItemResult& result)> on_result;
};

// Submits all items, as many at a time as the engine takes, and returns when each has its result
// or a callback asked to stop. One item's error touches no other.
void run_batch(
    LocalModel& model, std::span<const BatchItem> items, const BatchCallbacks& callbacks
);

}  // namespace millrace
