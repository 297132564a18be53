// out = x * transpose(weights), and what follows it in a decoder layer, on the tensor cores.
//
// Inputs and weights are bfloat16, sums float32. One arithmetic for every number of tokens: K is
// cut into steps of 16, four of them a chunk, and the chunks into parts (product_blocks.h), one
// after the other. The sum of a part is that of multiply_fragments() over its steps in ascending
// order, from zero; the parts' sums are added in ascending order, then the bias. What a tensor core
// does within a step is not documented; that it is the same for each row and column, and for
// mma.sync and wgmma, is what batch-invariance rests on (native/linear_wide_test.cpp asks a
// device).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/rms_norm.h"
#include "cuda/stream.h"

namespace millrace::cuda {

enum class LinearEpilogue {
  kStore,     // float32 out = sum + bias
  kAddToOut,  // float32 out = out + (sum + bias): the residual, in place
  kSiluMul,   // bfloat16 out = silu(gate + its bias) * (up + its bias)
};

struct LinearArgs {
  const uint16_t* x = nullptr;  // [num_tokens, num_inputs], device, bfloat16: operand_tiles.h
  size_t num_tokens = 0;
  size_t num_inputs = 0;
  // [num_rows, num_inputs], device, bfloat16: operand_tiles.h; of linear_quantized() codes:
  // code_tiles.h. kSiluMul: a panel is 8 rows of gate and 8 of up (RowPlaces).
  const void* weights = nullptr;
  size_t num_rows = 0;
  // [num_rows], device; kSiluMul: all of gate, then all of up. Null: none.
  const float* bias = nullptr;
  LinearEpilogue epilogue = LinearEpilogue::kStore;
  float* out = nullptr;  // [num_tokens, num_rows], device, row-major; kStore and kAddToOut
  // [num_tokens, num_rows / 2], device, bfloat16: operand_tiles.h; kSiluMul
  uint16_t* activation = nullptr;
};

// Panels of 16 rows that `num_rows` of a checkpoint take.
size_t num_linear_panels(size_t num_rows, LinearEpilogue epilogue);

// Weights are read past the caches where they are read once. No tokens: nothing happens.
void linear(StreamHandle stream, const LinearArgs& args);

// rms_norm(), then linear() of what it gives, to the bit: as one kernel for few tokens, each of
// whose blocks norms them for itself. REQUIRES: args.x is norm.out, which may be written or not.
void linear_of_normed(StreamHandle stream, const RmsNormArgs& norm, const LinearArgs& args);

}  // namespace millrace::cuda
