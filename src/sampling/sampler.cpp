#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/rng.h"
#include "sampling/logits_processors.h"

namespace millrace {
namespace {

// The lowest id of the highest score.
TokenId argmax(std::span<const float> scores) {
  return static_cast<TokenId>(std::ranges::max_element(scores) - scores.begin());
}

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

std::optional<SampledToken> Sampler::sample(
    std::span<const float> logits, const SamplingInput& input
) {
  CHECK(!logits.empty(), "a token is chosen from at least one");
  std::span<const float> scores = logits;
  if (changes_scores(input)) {
    scores_.assign(logits.begin(), logits.end());
    process_logits(scores_, input);
    scores = scores_;
  }
  SampledToken sampled;
  sampled.id = argmax(scores);
  if (std::isinf(scores[static_cast<size_t>(sampled.id)])) return std::nullopt;
  if (input.params.temperature > 0.0F) sampled.id = draw(scores, input);
  if (input.params.logprobs) {
    sampled.logprobs = logprobs(logits, sampled.id, *input.params.logprobs);
  }
  return sampled;
}

TokenId Sampler::draw(std::span<const float> scores, const SamplingInput& input) {
  const SamplingParams& params = input.params;
  gather_candidates(scores, params);
  if (params.top_k > 0) keep_best(static_cast<size_t>(params.top_k));
  if (params.top_p < 1.0F) keep_nucleus(static_cast<double>(params.top_p));

  double total = 0.0;
  for (const Candidate& candidate : candidates_) total += static_cast<double>(candidate.weight);
  double left = draw_unit(input) * total;
  for (const Candidate& candidate : candidates_) {
    left -= static_cast<double>(candidate.weight);
    if (left < 0.0) return candidate.id;
  }
  return candidates_.back().id;  // rounding used up the last of the mass
}

void Sampler::gather_candidates(std::span<const float> scores, const SamplingParams& params) {
  const float highest = *std::ranges::max_element(scores);
  candidates_.clear();
  for (size_t i = 0; i < scores.size(); ++i) {
    const float weight = std::exp((scores[i] - highest) / params.temperature);
    if (weight > 0.0F && weight >= params.min_p) {
      candidates_.push_back({static_cast<TokenId>(i), weight});
    }
  }
}

void Sampler::keep_best(size_t count) {
  if (count >= candidates_.size()) return;
  const auto end_of_best = candidates_.begin() + static_cast<ptrdiff_t>(count);
  std::nth_element(candidates_.begin(), end_of_best, candidates_.end(), is_better);
  candidates_.erase(end_of_best, candidates_.end());
  std::ranges::sort(candidates_, {}, &Candidate::id);
}

// Keeps the fewest best candidates that hold at least `top_p` of the mass. Sorts only as far as it
// must: a nucleus is mostly a few dozen tokens out of a hundred thousand.
void Sampler::keep_nucleus(double top_p) {
  double total = 0.0;
  for (const Candidate& candidate : candidates_) total += static_cast<double>(candidate.weight);
  double mass = 0.0;
  size_t num_kept = 0;
  size_t num_sorted = 0;
  while (num_kept < candidates_.size() && mass < top_p * total) {
    if (num_kept == num_sorted) {
      const size_t num_wanted = std::min(candidates_.size(), num_sorted * 8 + 64);
      const auto begin = candidates_.begin() + static_cast<ptrdiff_t>(num_sorted);
      const auto middle = candidates_.begin() + static_cast<ptrdiff_t>(num_wanted);
      std::partial_sort(begin, middle, candidates_.end(), is_better);
      num_sorted = num_wanted;
    }
    mass += static_cast<double>(candidates_[num_kept++].weight);
  }
  candidates_.resize(num_kept);
  std::ranges::sort(candidates_, {}, &Candidate::id);
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
