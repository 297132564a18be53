// Speculation: a step computes guesses at a sequence's next tokens (drafts) beside its last token,
// and the sampler then chooses each token from its own logits, as it would without them. Drafts
// that are equal to what it chose were right and saved a step each; the rest are forgotten. So
// tokens and logprobs are those without speculation, to the bit, greedy and sampled
// (docs/decisions/0011). Here: what is asked of it, and the count of what came of it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/result.h"

namespace millrace {

// Guesses come from the sequence itself: what followed the last tokens when they came before. After
// A. Saxena, "Prompt Lookup Decoding" (2023). The fields are those of vLLM's speculative_config.
struct NgramSpeculation {
  // Beyond these a longer draft or n-gram gains nothing, and costs for each token.
  static constexpr int32_t kNumTokensMax = 32;
  static constexpr int32_t kLookupMax = 16;

  int32_t num_speculative_tokens = 0;  // most tokens of a draft
  int32_t prompt_lookup_max = 5;       // tokens that must have come before: the most of these...
  int32_t prompt_lookup_min = 5;       // ... down to so many are looked for

  friend bool operator==(const NgramSpeculation&, const NgramSpeculation&) = default;
};

// Refuses what is out of range; the error's `where` is the field's name.
Result<void> validate(const NgramSpeculation& speculation);

// Since the start, as vLLM counts them.
struct SpeculationStats {
  int64_t num_drafts = 0;           // of one sequence in one step each
  int64_t num_draft_tokens = 0;     // in all of them
  int64_t num_accepted_tokens = 0;  // of those: that were right, each one output token
  // How many drafts were right up to their 1st, 2nd, ... token.
  std::array<int64_t, NgramSpeculation::kNumTokensMax> num_accepted_per_position = {};

  void add(int32_t num_drafted, int32_t num_accepted) {
    ++num_drafts;
    num_draft_tokens += num_drafted;
    num_accepted_tokens += num_accepted;
    for (int32_t i = 0; i < num_accepted; ++i) ++num_accepted_per_position[static_cast<size_t>(i)];
  }
};

}  // namespace millrace
