// What a model reads to be calibrated (quantization/quantize_model.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "server/local_model.h"

namespace millrace {

// Tokens of each of a model's own answers that `millrace quantize` takes where nothing else is
// said.
inline constexpr int32_t kCalibrationAnswerTokens = 64;

// The model's own answers to questions of many kinds and some languages, each behind its question
// as the model's chat template states it (a model without one continues the plain question):
// sampled at temperature 1, so that they cover what the model may say, and the same for the same
// model and seed. The engine serves nobody else.
// `on_progress`: the fraction of the questions that are answered.
Result<std::vector<std::vector<TokenId>>> own_answers(
    LocalModel& model,
    int32_t num_answer_tokens,
    const std::function<void(double fraction)>& on_progress = {}
);

// The paragraphs of a text file, which empty lines part.
Result<std::vector<std::vector<TokenId>>> paragraphs_of(
    const LocalModel& model, const std::string& path
);

}  // namespace millrace
