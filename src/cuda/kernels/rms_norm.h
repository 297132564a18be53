// Root mean square normalization (Zhang and Sennrich 2019) on a device:
// out = x / sqrt(mean(x^2) + eps) * weight.
//
// The squares are summed by 256 threads, thread t taking columns 8t .. 8t + 7, then those 2048
// further on, ..., each product fused; the threads of a warp in halves, the warps in ascending
// order. Then out = (x * (1 / sqrt(sum / n + eps))) * weight, rounded to bfloat16. One order for a
// row, whatever the others.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/stream.h"

namespace millrace::cuda {

struct RmsNormArgs {
  const float* x = nullptr;  // [num_tokens, hidden], device
  size_t num_tokens = 0;
  size_t hidden = 0;
  const float* weight = nullptr;  // [hidden], device
  float eps = 0.0F;
  uint16_t* out = nullptr;  // [num_tokens, hidden], device, bfloat16: operand_tiles.h
};

// No tokens: nothing happens.
void rms_norm(StreamHandle stream, const RmsNormArgs& args);

}  // namespace millrace::cuda
