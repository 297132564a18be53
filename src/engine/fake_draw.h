// For tests: what a runner that draws tokens draws, by the sampler itself.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

#include "base/rng.h"
#include "sampling/draw.h"
#include "sampling/sampler.h"

namespace millrace {

// The x of mix64(x).
constexpr uint64_t unmix64(uint64_t x) {
  x ^= (x >> 31) ^ (x >> 62);
  x *= 0x319642b2d24d8ec3ULL;
  x ^= (x >> 27) ^ (x >> 54);
  x *= 0x96de1b173f119089ULL;
  x ^= (x >> 30) ^ (x >> 60);
  return x - 0x9e3779b97f4a7c15ULL;
}

// A request's seed whose random number for the first token of its first choice is this.
inline uint64_t seed_of_unit(double unit) {
  const auto bits = static_cast<uint64_t>(unit * 0x1.0p53) << 11;
  return unmix64(unmix64(unmix64(bits) ^ mix64(0x632be59bd9b4e019ULL)));
}

// nullopt: `logits` are not all finite.
inline std::optional<SampledToken> fake_draw(
    std::span<const float> logits, const DrawParams& draw
) {
  if (!std::ranges::all_of(logits, [](float logit) { return std::isfinite(logit); })) return {};
  SamplingParams params;
  params.temperature = draw.temperature;
  params.top_k = draw.top_k;
  params.top_p = draw.top_p;
  params.min_p = draw.min_p;
  params.logprobs = draw.logprobs;
  const SamplingInput input{
      .params = params,
      .seed = seed_of_unit(draw.unit),
      .prompt = {},
      .output = {},
      .eos_token_ids = {},
  };
  EXPECT_EQ(draw_unit(input), draw.unit);
  return Sampler().sample(logits, input);
}

}  // namespace millrace
