// Changes to the scores of a sequence before a token is chosen: constraints, biases, penalties.
#pragma once

#include <span>

#include "sampling/sampler.h"

namespace millrace {

// Whether any field asks for a change of scores, so that most requests skip the copy.
[[nodiscard]] bool changes_scores(const SamplingInput& input);

// Applies all of them in place, in the order that Sampler::sample states. A token that must not be
// chosen gets -infinity. `scores`: [vocab_size].
void process_logits(std::span<float> scores, const SamplingInput& input);

}  // namespace millrace
