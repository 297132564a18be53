// out = x * transpose(weights), and what follows it in a decoder layer, on the tensor cores.
//
// Inputs and weights are bfloat16, sums float32. One arithmetic for every number of tokens: K is
// cut into steps of 32; each step is two products of multiply_fragments(), the first of k = 8t ..
// 8t + 3 and the second of k = 8t + 4 .. 8t + 7 for t = 0 .. 3. Of W warps (num_k_warps(), a
// function of the shape alone), warp w adds steps w, w + W, ... in ascending order; the warps' sums
// are added in ascending order, then the bias. What a tensor core does within a product is fixed
// but not documented; that it is the same for each of its rows and columns is what
// batch-invariance rests on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/stream.h"

namespace millrace::cuda {

enum class LinearEpilogue {
  kStore,     // float32 out = sum + bias
  kAddToOut,  // float32 out = out + (sum + bias): the residual, in place
  kSiluMul,   // bfloat16 out = silu(gate + its bias) * (up + its bias)
};

struct LinearArgs {
  const uint16_t* x = nullptr;  // [num_tokens, num_inputs], device, bfloat16
  size_t num_tokens = 0;
  size_t num_inputs = 0;
  // [num_rows, num_inputs], device, bfloat16, as in a checkpoint. kSiluMul: all rows of gate, then
  // all of up.
  const uint16_t* weights = nullptr;
  size_t num_rows = 0;
  const float* bias = nullptr;  // [num_rows], device; null: none
  LinearEpilogue epilogue = LinearEpilogue::kStore;
  float* out = nullptr;            // [num_tokens, num_rows], device; kStore and kAddToOut
  uint16_t* activation = nullptr;  // [num_tokens, num_rows / 2], device, bfloat16; kSiluMul
};

// The warps that share the inputs of a row: 1, 2, 4 or 8.
uint32_t num_k_warps(size_t num_rows, size_t num_inputs);

// Weights are read past the caches for up to 16 tokens. No tokens: nothing happens.
void linear(StreamHandle stream, const LinearArgs& args);

}  // namespace millrace::cuda
