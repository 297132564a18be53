#include "sampling/logits_processors.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace millrace {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Whether a token that ends the output may not be chosen yet. Where none ends it, none is
// forbidden: benchmarks ask for min_tokens beside ignore_eos.
bool holds_back_end(const SamplingInput& input) {
  const SamplingParams& p = input.params;
  const bool has_end = !p.stop_token_ids.empty() || (!p.ignore_eos && !input.eos_token_ids.empty());
  return has_end && input.output.size() < static_cast<size_t>(p.min_tokens);
}

float& score_of(std::span<float> scores, TokenId id) {
  return scores[static_cast<size_t>(id)];
}

void keep_only(std::span<float> scores, std::span<const TokenId> allowed) {
  std::vector<bool> is_allowed(scores.size());
  for (const TokenId id : allowed) is_allowed[static_cast<size_t>(id)] = true;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!is_allowed[i]) scores[i] = kNever;
  }
}

// A word is forbidden by its last token, once the output ends with all the others.
void forbid_words(std::span<float> scores, const SamplingInput& input) {
  for (const std::vector<TokenId>& word : input.params.bad_words) {
    const size_t num_before = word.size() - 1;
    if (num_before > input.output.size()) continue;
    if (std::equal(
            word.begin(), word.end() - 1, input.output.end() - static_cast<ptrdiff_t>(num_before)
        )) {
      score_of(scores, word.back()) = kNever;
    }
  }
}

void forbid_end(std::span<float> scores, const SamplingInput& input) {
  for (const TokenId id : input.params.stop_token_ids) score_of(scores, id) = kNever;
  if (input.params.ignore_eos) return;  // then an eos token ends nothing and stays a choice
  for (const TokenId id : input.eos_token_ids) score_of(scores, id) = kNever;
}

// One pass over the tokens, not a sort: a prompt of 100k tokens is penalized at every step.
void penalize_repetition(std::span<float> scores, const SamplingInput& input) {
  const float penalty = input.params.repetition_penalty;
  std::vector<bool> is_seen(scores.size());
  for (const std::span<const TokenId> tokens : {input.prompt, input.output}) {
    for (const TokenId id : tokens) {
      if (is_seen[static_cast<size_t>(id)]) continue;
      is_seen[static_cast<size_t>(id)] = true;
      float& score = score_of(scores, id);
      score = score > 0.0F ? score / penalty : score * penalty;
    }
  }
}

void penalize_presence_and_frequency(std::span<float> scores, const SamplingInput& input) {
  std::vector<int32_t> counts(scores.size());
  for (const TokenId id : input.output) ++counts[static_cast<size_t>(id)];
  for (const TokenId id : input.output) {
    const int32_t count = std::exchange(counts[static_cast<size_t>(id)], 0);
    if (count == 0) continue;  // done already
    score_of(scores, id) -=
        input.params.frequency_penalty * static_cast<float>(count) + input.params.presence_penalty;
  }
}

}  // namespace

bool changes_scores(const SamplingInput& input) {
  const SamplingParams& p = input.params;
  return p.allowed_token_ids || !p.bad_words.empty() || !p.logit_bias.empty() ||
         holds_back_end(input) || p.repetition_penalty != 1.0F || p.presence_penalty != 0.0F ||
         p.frequency_penalty != 0.0F;
}

void process_logits(std::span<float> scores, const SamplingInput& input) {
  const SamplingParams& p = input.params;
  if (p.allowed_token_ids) keep_only(scores, *p.allowed_token_ids);
  forbid_words(scores, input);
  if (holds_back_end(input)) forbid_end(scores, input);
  for (const auto& [id, bias] : p.logit_bias) score_of(scores, id) += bias;
  if (p.repetition_penalty != 1.0F) penalize_repetition(scores, input);
  if (p.presence_penalty != 0.0F || p.frequency_penalty != 0.0F) {
    penalize_presence_and_frequency(scores, input);
  }
}

}  // namespace millrace
