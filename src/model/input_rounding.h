// How the inputs of a model's quantized matrices are rounded (kernels/quantized/input_rounding.h).
#pragma once

#include "kernels/quantized/quantization.h"
#include "model/matrix_place.h"

namespace millrace {

// As the quantization says, but where it says two terms one for `down`, in groups with scales of
// their own: the matrix whose second term costs the most time for what it brings
// (docs/decisions/0022).
constexpr InputRounding input_rounding(const Quantization& quantization, MatrixKind kind) {
  if (quantization.keeps_codes()) return InputRounding::kUnrotated;
  const bool has_two = quantization.rounding == InputRounding::kTwoTerms;
  if (kind == MatrixKind::kDown && has_two) return InputRounding::kGroups;
  return quantization.rounding;
}

}  // namespace millrace
