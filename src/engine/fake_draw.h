// For tests: what a runner that draws tokens draws, as the sampler does.
#pragma once

#include <optional>
#include <span>

#include "sampling/sampler.h"
#include "sampling/score_row.h"

namespace millrace {

// nullopt: `logits` are not all finite.
inline std::optional<SampledToken> fake_draw(
    std::span<const float> logits, const DrawParams& draw
) {
  ScoreRow row;
  row.read(logits);
  if (!row.are_finite()) return std::nullopt;
  SampledToken token = {.id = draw.temperature > 0.0F ? row.draw(draw) : *row.best()};
  if (draw.logprobs) token.logprobs = Sampler().logprobs(logits, token.id, *draw.logprobs);
  return token;
}

}  // namespace millrace
