// linear() with weights of 8 or 4 bits, in the layout of kernels/quantized/quantized_matrix.h as it
// is: a QuantizedMatrix's bytes are copied to the device and read there.
//
// Inputs are bfloat16, rotated by rotate_rows(). Codes become bfloat16 in registers, exactly, and
// are multiplied by multiply_fragments() in steps of 32 inputs, of which the first product takes 8t
// .. 8t + 3 for t = 0 .. 3 and the second the rest. Of W warps, a number of the shape alone, warp w
// takes groups of 64 inputs w, w + W, ...: the sum of a group's products, from zero, times the
// group's scale is fused into the warp's sum; the warps' sums are added in ascending order, then
// times the row's scale, then the bias. Not the CPU's arithmetic, which rounds inputs to 8 or 16
// bits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/linear.h"
#include "cuda/stream.h"
#include "kernels/quantized/quantized_matrix.h"

namespace millrace::cuda {

// Inputs of a row as they are after rotate_rows(): padded to whole groups.
size_t num_rotated_inputs(size_t num_inputs);

struct RotateRowsArgs {
  const uint16_t* x = nullptr;  // [num_tokens, num_inputs], device, bfloat16: operand_tiles.h
  size_t num_tokens = 0;
  size_t num_inputs = 0;
  // [num_tokens, num_rotated_inputs()], device, bfloat16, row-major; not x
  uint16_t* out = nullptr;
};

// The transform of kernels/quantized/encode_rows.h in float32, in its order, then rounded to
// bfloat16. No tokens: nothing happens.
void rotate_rows(StreamHandle stream, const RotateRowsArgs& args);

struct LinearQuantizedArgs {
  const uint16_t* x = nullptr;  // [num_tokens, num_rotated_inputs()], device: of rotate_rows()
  size_t num_tokens = 0;
  size_t num_inputs = 0;  // of the matrix
  QuantizedFormat format = QuantizedFormat::kInt8;
  // QuantizedMatrix::num_bytes(), device, 16-byte aligned. kSiluMul: panels alternate, 16 rows of
  // gate, 16 rows of up.
  const void* panels = nullptr;
  size_t num_outputs = 0;       // columns of out: rows of the matrix, or of its gate
  const float* bias = nullptr;  // [num_panels * 16], device, in the order of packed rows; or null
  LinearEpilogue epilogue = LinearEpilogue::kStore;
  float* out = nullptr;  // [num_tokens, num_outputs], device; kStore and kAddToOut
  // [num_tokens, num_outputs], device, bfloat16: operand_tiles.h; kSiluMul
  uint16_t* activation = nullptr;
};

// No tokens: nothing happens.
void linear_quantized(StreamHandle stream, const LinearQuantizedArgs& args);

}  // namespace millrace::cuda
