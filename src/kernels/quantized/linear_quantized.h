// linear() with weights of 8 or 4 bits and activations of 8 bits, both rotated.
//
// Each output element is a sum over groups of 64 inputs in ascending order: the exact integer sum
// of the group's products, converted, times the weights' scale of that group (rounded), and its
// product with the activations' scale fused into the sum; then times the row's scale. A token's
// result never depends on its neighbours, on threads or on the instruction set.
#pragma once

#include <span>

#include "kernels/executor.h"
#include "kernels/linear_kernel.h"  // LinearEpilogue
#include "kernels/quantized/encode_rows.h"
#include "kernels/quantized/quantized_matrix.h"
#include "kernels/rows.h"

namespace millrace {

struct LinearQuantizedArgs {
  const EncodedRows& x;  // num_tokens rows of weights.num_columns() inputs
  const QuantizedMatrix& weights;
  std::span<const float> bias;  // [num_panels * 16] in the order of the packed rows; empty: none
  // kStore, kAddToOut: [num_tokens, weights.num_rows()]. kSiluMul: [num_tokens, n] where the matrix
  // has 2 * round_up(n, 16) rows.
  Rows out;
  LinearEpilogue epilogue = LinearEpilogue::kStore;
};

// The output panels are split over the threads. No tokens: nothing happens.
void linear_quantized(const Executor& executor, const LinearQuantizedArgs& args);

}  // namespace millrace
