// The choice of a token from a row of logits that nothing changes beforehand: what it depends on,
// as a value that may go to another device than the one that knows the request.
#pragma once

#include <cstdint>
#include <optional>

#include "sampling/sampler.h"

namespace millrace {

struct DrawParams {
  float temperature = 0.0F;  // 0: the most likely token
  int32_t top_k = 0;         // 0: all
  float top_p = 1.0F;
  float min_p = 0.0F;
  double unit = 0.0;                     // uniform in [0, 1): the random number of this place
  std::optional<int32_t> logprobs = {};  // as SamplingParams::logprobs
};

// nullopt: the scores change first, by what only the request's own tokens tell (penalties, biases,
// forbidden tokens), so that Sampler::sample() has to see them.
[[nodiscard]] std::optional<DrawParams> draw_params(const SamplingInput& input);

}  // namespace millrace
