// Which choices of a token need nothing but a row of logits, so that the device that computed it
// can make them.
#pragma once

#include <cstdint>
#include <optional>

#include "sampling/exact_draw.h"
#include "sampling/sampler.h"

namespace millrace {

// Logprobs that a device finds at once (cuda/kernels/top_k.h).
constexpr int32_t kDrawLogprobsMax = 64;

// nullopt: Sampler::sample() has to see the scores. They change first, by what only the request's
// own tokens tell (penalties, biases, forbidden tokens); or more than kDrawLogprobsMax are wanted.
[[nodiscard]] std::optional<DrawParams> draw_params(const SamplingInput& input);

}  // namespace millrace
