// Chooses the next token of one sequence from its logits. Pure: the same input gives the same token
// whatever ran before or beside it, so a preempted and recomputed sequence goes on unchanged.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/id.h"
#include "sampling/exact_draw.h"
#include "sampling/sampling_params.h"
#include "sampling/score_row.h"

namespace millrace {

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0.0F;

  friend bool operator==(const TokenLogprob&, const TokenLogprob&) = default;
};

struct SampledToken {
  TokenId id = 0;
  // Empty unless asked for. The chosen token first, then the most likely others, best first.
  // Natural logarithms under the model's own distribution, before penalties and temperature.
  std::vector<TokenLogprob> logprobs;
};

// What the choice depends on besides the logits. All views are borrowed for the call.
// REQUIRES: every token id is within the vocabulary.
struct SamplingInput {
  const SamplingParams& params;
  uint64_t seed = 0;   // params.seed, or the one that the engine drew for the request
  int32_t choice = 0;  // 0 .. n - 1, so that the n sequences of a request differ
  std::span<const TokenId> prompt;
  std::span<const TokenId> output;         // tokens generated so far
  std::span<const TokenId> eos_token_ids;  // the model's; held back until min_tokens
};

// Uniform in [0, 1): a function of the request's seed, the choice and the place in the output.
double draw_unit(const SamplingInput& input);

// The parameters and the random number of the place.
DrawParams draw_of(const SamplingInput& input);

// Holds scratch memory, and borrows the row that it read last. Not thread-safe; one per thread.
class Sampler {
 public:
  // `logits`: [vocab_size], finite or -inf, as the model gave them; borrowed until the next row.
  // The next two are of them. Returns whether all are finite.
  bool read(std::span<const float> logits);

  // Order of operations as in vLLM: logprobs are taken from the raw logits; then allowed ids, bad
  // words, min_tokens, logit_bias, penalties; then the draw (exact_draw.h). Ties go to the lowest
  // id. nullopt: the constraints leave no token at all.
  std::optional<SampledToken> sample(const SamplingInput& input);

  // Logprobs at one place: `chosen` first, then the `num_top` most likely others, best first.
  std::vector<TokenLogprob> logprobs(TokenId chosen, int32_t num_top);

  // The same of a row that is read for it.
  std::optional<SampledToken> sample(std::span<const float> logits, const SamplingInput& input);
  std::vector<TokenLogprob> logprobs(
      std::span<const float> logits, TokenId chosen, int32_t num_top
  );

 private:
  ScoreRow logits_;
  std::vector<float> changed_scores_;  // [vocab_size]
  ScoreRow changed_;                   // the row of them
};

}  // namespace millrace
