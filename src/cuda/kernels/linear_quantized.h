// linear() with weights of 8 or 4 bits: the codes of a QuantizedMatrix of our own formats, in the
// order of code_tiles.h; those of int6 in 8 bits.
//
// Inputs are bfloat16, rotated by rotate_rows(). Codes become bfloat16 in registers, exactly, and
// are multiplied as linear() multiplies weights, chunk by chunk: the sum of a chunk's four steps,
// from zero, times the chunk's scale is fused into the sum of the part; the parts' sums are added
// in ascending order, then times the row's scale, then the bias. A part has whole pairs of chunks
// (code_share()). One arithmetic for every number of tokens. Not the CPU's, which rounds inputs to
// 8 or 16 bits.
#pragma once

#include <cstddef>

#include "cuda/kernels/linear.h"
#include "cuda/stream.h"
#include "kernels/quantized/quantized_matrix.h"

namespace millrace::cuda {

// Panels of 16 rows that `num_rows` of a checkpoint take: of kSiluMul 16 of gate and 16 of up are
// two.
size_t num_code_panels(size_t num_rows, LinearEpilogue epilogue);

// Bytes of a matrix's codes and scales. `format`: one of our own.
size_t num_code_bytes(QuantizedFormat format, size_t num_panels, size_t num_inputs);

// `args`: as of linear(), but x is what rotate_rows() gives, and num_inputs that of the matrix
// before. No tokens: nothing happens.
void linear_quantized(StreamHandle stream, QuantizedFormat format, const LinearArgs& args);

}  // namespace millrace::cuda
