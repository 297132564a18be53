// Rows of the embedding table: the residual stream's beginning.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/stream.h"

namespace millrace::cuda {

struct EmbedArgs {
  const int32_t* token_ids = nullptr;  // [num_tokens], device, each within the table
  size_t num_tokens = 0;
  // [vocab_size, hidden], device, bfloat16: as weights, operand_tiles.h
  const uint16_t* table = nullptr;
  size_t hidden = 0;
  float* out = nullptr;  // [num_tokens, hidden], device
};

// No tokens: nothing happens.
void embed(StreamHandle stream, const EmbedArgs& args);

}  // namespace millrace::cuda
