#include "sampling/draw.h"

#include "sampling/logits_processors.h"

namespace millrace {

std::optional<DrawParams> draw_params(const SamplingInput& input) {
  if (changes_scores(input)) return std::nullopt;
  if (input.params.logprobs.value_or(0) > kDrawLogprobsMax) return std::nullopt;
  return draw_of(input);
}

}  // namespace millrace
