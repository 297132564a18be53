// Tokens drawn from rows of logits on a device: sampling/exact_draw.h's definition, and so the
// processor's tokens, in whatever order the threads of a block come by: what they add up are
// integers.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "cuda/stream.h"
#include "sampling/exact_draw.h"

namespace millrace::cuda {

// A row to draw from, in words of 32 bits.
struct DrawRow {
  int32_t row = 0;           // of the logits
  float temperature = 0.0F;  // 0: the most likely token
  int32_t top_k = 0;         // 0: all
  float top_p = 1.0F;
  float min_p = 0.0F;
  uint32_t unit_words[2] = {};  // of a double in [0, 1), the lower first

  static DrawRow of(int32_t row, const DrawParams& params) {
    const auto bits = std::bit_cast<uint64_t>(params.unit);
    return {
        .row = row,
        .temperature = params.temperature,
        .top_k = params.top_k,
        .top_p = params.top_p,
        .min_p = params.min_p,
        .unit_words = {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)}};
  }
};

struct DrawnRow {
  static constexpr int32_t kNothing = -1;  // a logit is NaN or infinite

  int32_t id = kNothing;
  float logit = 0.0F;  // of the token, where there is one
};

struct DrawArgs {
  const float* logits = nullptr;  // [number of rows, num_columns], device
  size_t num_columns = 0;
  const DrawRow* rows = nullptr;  // [num_draws], device
  size_t num_draws = 0;
  DrawnRow* drawn = nullptr;  // [num_draws], device
};

// No draws: nothing happens.
void draw_tokens(StreamHandle stream, const DrawArgs& args);

// A token of a batch that an earlier draw decides.
struct TokenOfDraw {
  int32_t token = 0;  // index in the batch
  int32_t draw = 0;   // index of the draw
};

struct FillTokensArgs {
  const TokenOfDraw* tokens = nullptr;  // [num_tokens], device, each index of a token once
  size_t num_tokens = 0;
  const DrawnRow* drawn = nullptr;  // device
  int32_t* token_ids = nullptr;     // device
};

// token_ids[token] = the id of its draw; 0 where nothing was drawn: somebody will find that out,
// and until then it is a token of the vocabulary. No tokens: nothing happens.
void fill_drawn_tokens(StreamHandle stream, const FillTokensArgs& args);

}  // namespace millrace::cuda
