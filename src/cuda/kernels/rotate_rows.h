// The rotation of what linear_quantized() multiplies, which its weights have had before they were
// rounded.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/rms_norm.h"
#include "cuda/stream.h"

namespace millrace::cuda {

// Inputs of a row as they are after rotate_rows(): padded to whole groups of 64.
size_t num_rotated_inputs(size_t num_inputs);

struct RotateRowsArgs {
  const uint16_t* x = nullptr;  // [num_tokens, num_inputs], device, bfloat16: operand_tiles.h
  size_t num_tokens = 0;
  size_t num_inputs = 0;
  // [num_tokens, num_rotated_inputs()], device, bfloat16: operand_tiles.h; not x
  uint16_t* out = nullptr;
};

// The transform of kernels/quantized/encode_rows.h in float32, in its order, then rounded to
// bfloat16. No tokens: nothing happens.
void rotate_rows(StreamHandle stream, const RotateRowsArgs& args);

// rms_norm(), then rotate_rows() of what it gives, to the bit: as one kernel for few tokens, where
// norm.out is not written. `rotated`: as RotateRowsArgs::out.
void rotate_normed(StreamHandle stream, const RmsNormArgs& norm, uint16_t* rotated);

}  // namespace millrace::cuda
