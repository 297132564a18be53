#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/rng.h"
#include "sampling/logits_processors.h"

namespace millrace {
namespace {

// log(sum(exp(logits))), summed in double in the order of ids: one value for one row, always.
double log_sum_exp(std::span<const float> logits) {
  const float highest = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += static_cast<double>(std::exp(logit - highest));
  return static_cast<double>(highest) + std::log(sum);
}

}  // namespace

double draw_unit(const SamplingInput& input) {
  const uint64_t key = mix64(input.seed) + static_cast<uint64_t>(input.choice);
  return random_unit(key, input.output.size());
}

DrawParams draw_of(const SamplingInput& input) {
  const SamplingParams& params = input.params;
  return {
      .temperature = params.temperature,
      .top_k = std::max(params.top_k, 0),
      .top_p = params.top_p,
      .min_p = params.min_p,
      .unit = draw_unit(input),
      .logprobs = params.logprobs,
  };
}

std::optional<SampledToken> Sampler::sample(
    std::span<const float> logits, const SamplingInput& input
) {
  std::span<const float> scores = logits;
  if (changes_scores(input)) {
    scores_.assign(logits.begin(), logits.end());
    process_logits(scores_, input);
    scores = scores_;
  }
  SampledToken sampled;
  sampled.id = best_token(scores);
  if (!std::isfinite(scores[static_cast<size_t>(sampled.id)])) return std::nullopt;
  if (input.params.temperature > 0.0F) {
    sampled.id = draw_.draw(scores, sampled.id, draw_of(input));
  }
  if (input.params.logprobs) {
    sampled.logprobs = logprobs(logits, sampled.id, *input.params.logprobs);
  }
  return sampled;
}

std::vector<TokenLogprob> Sampler::logprobs(
    std::span<const float> logits, TokenId chosen, int32_t num_top
) {
  const double normalizer = log_sum_exp(logits);
  const auto logprob = [&](TokenId id) {
    return static_cast<float>(static_cast<double>(logits[static_cast<size_t>(id)]) - normalizer);
  };
  const auto better = [&](TokenId a, TokenId b) {
    const float score_a = logits[static_cast<size_t>(a)];
    const float score_b = logits[static_cast<size_t>(b)];
    return score_a != score_b ? score_a > score_b : a < b;
  };
  std::vector<TokenLogprob> result = {{chosen, logprob(chosen)}};
  if (num_top <= 0) return result;
  ids_.resize(logits.size());
  std::iota(ids_.begin(), ids_.end(), 0);
  const size_t num_kept = std::min(ids_.size(), static_cast<size_t>(num_top));
  std::partial_sort(
      ids_.begin(), ids_.begin() + static_cast<ptrdiff_t>(num_kept), ids_.end(), better
  );
  for (const TokenId id : std::span(ids_).first(num_kept)) {
    if (id != chosen) result.push_back({id, logprob(id)});
  }
  return result;
}

}  // namespace millrace
