// Tokens and logprobs that are made up, for NullEngine. Pure: each follows from a key and a
// counter.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/id.h"
#include "sampling/sampler.h"

namespace millrace {

class NullTokens {
 public:
  // `ids`: what is drawn from. REQUIRES: distinct, at least one.
  explicit NullTokens(std::vector<TokenId> ids);

  // The token at `position`. None of `barred`, which is sorted; nullopt: all are barred.
  std::optional<TokenId> draw(uint64_t key, uint64_t position, std::span<const TokenId> barred)
      const;

  // As Sampler::logprobs: `chosen` first, then the `num_top` most likely others, best first. The
  // i-th best has probability 2^-(i+1); the chosen one mostly is among the best.
  // REQUIRES: there are more ids than num_top.
  std::vector<TokenLogprob> logprobs(
      TokenId chosen, int32_t num_top, uint64_t key, uint64_t position
  ) const;

 private:
  size_t index_of(uint64_t bits) const;

  std::vector<TokenId> ids_;
};

}  // namespace millrace
