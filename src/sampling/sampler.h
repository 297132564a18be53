// Chooses the next token of one sequence from its logits. Pure: the same input gives the same token
// whatever ran before or beside it, so a preempted and recomputed sequence goes on unchanged.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/id.h"
#include "sampling/sampling_params.h"

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

// Holds scratch memory only. Not thread-safe; one per thread.
class Sampler {
 public:
  // `logits`: [vocab_size], finite or -inf, as the model gave them. Order of operations as in vLLM:
  // logprobs are taken from the raw logits; then allowed ids, bad words, min_tokens, logit_bias,
  // penalties, temperature, min_p, top_k, top_p; then the draw. Ties go to the lowest id. nullopt:
  // the constraints leave no token at all.
  std::optional<SampledToken> sample(std::span<const float> logits, const SamplingInput& input);

  // Logprobs at one place: `chosen` first, then the `num_top` most likely others, best first.
  std::vector<TokenLogprob> logprobs(
      std::span<const float> logits, TokenId chosen, int32_t num_top
  );

 private:
  struct Candidate {
    TokenId id;
    float weight;  // relative probability: 1 for the best token
  };

  TokenId draw(std::span<const float> scores, const SamplingInput& input);
  void gather_candidates(std::span<const float> scores, const SamplingParams& params);
  void keep_best(size_t count);
  void keep_nucleus(double top_p);

  static bool is_better(const Candidate& a, const Candidate& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.id < b.id;
  }

  std::vector<float> scores_;          // [vocab_size]
  std::vector<Candidate> candidates_;  // at most [vocab_size], by id between the steps of a draw
  std::vector<TokenId> ids_;           // [vocab_size]
};

}  // namespace millrace
