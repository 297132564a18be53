#include "sampling/sampler.h"

#include <algorithm>

#include "base/rng.h"
#include "sampling/logits_processors.h"

namespace millrace {

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

bool Sampler::read(std::span<const float> logits) {
  logits_.read(logits);
  return logits_.are_finite();
}

std::optional<SampledToken> Sampler::sample(const SamplingInput& input) {
  ScoreRow* scores = &logits_;
  if (changes_scores(input)) {
    changed_scores_.assign(logits_.scores().begin(), logits_.scores().end());
    process_logits(changed_scores_, input);
    changed_.read(changed_scores_);
    scores = &changed_;
  }
  const bool is_greedy = input.params.temperature <= 0.0F;
  const std::optional<TokenId> best = scores->best();
  if (!best) return std::nullopt;
  SampledToken sampled = {.id = is_greedy ? *best : scores->draw(draw_of(input)), .logprobs = {}};
  if (input.params.logprobs) sampled.logprobs = logprobs(sampled.id, *input.params.logprobs);
  return sampled;
}

std::vector<TokenLogprob> Sampler::logprobs(TokenId chosen, int32_t num_top) {
  const double normalizer = logits_.log_sum_exp();
  const auto logprob = [normalizer](float logit) {
    return static_cast<float>(static_cast<double>(logit) - normalizer);
  };
  std::vector<TokenLogprob> result = {{chosen, logprob(logits_.score_of(chosen))}};
  for (const RankedToken& token : logits_.best_tokens(static_cast<size_t>(std::max(num_top, 0)))) {
    if (token.id != chosen) result.push_back({token.id, logprob(token.score)});
  }
  return result;
}

std::optional<SampledToken> Sampler::sample(
    std::span<const float> logits, const SamplingInput& input
) {
  read(logits);
  return sample(input);
}

std::vector<TokenLogprob> Sampler::logprobs(
    std::span<const float> logits, TokenId chosen, int32_t num_top
) {
  read(logits);
  return logprobs(chosen, num_top);
}

}  // namespace millrace
