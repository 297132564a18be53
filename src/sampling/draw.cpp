#include "sampling/draw.h"

#include <algorithm>

#include "sampling/logits_processors.h"

namespace millrace {

std::optional<DrawParams> draw_params(const SamplingInput& input) {
  if (changes_scores(input)) return std::nullopt;
  const SamplingParams& params = input.params;
  return DrawParams{
      .temperature = params.temperature,
      .top_k = std::max(params.top_k, 0),
      .top_p = params.top_p,
      .min_p = params.min_p,
      .unit = draw_unit(input),
      .logprobs = params.logprobs,
  };
}

}  // namespace millrace
