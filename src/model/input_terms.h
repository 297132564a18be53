// Of how many terms of 8 bits the inputs of a model's quantized matrices are (encode_rows.h).
#pragma once

#include <cstddef>
#include <optional>

#include "kernels/quantized/quantization.h"
#include "model/matrix_place.h"

namespace millrace {

// As many as the quantization says, but one for `down`, the matrix whose second term costs the most
// time for what it brings (docs/decisions/0022).
constexpr size_t num_input_terms(const std::optional<Quantization>& quantization, MatrixKind kind) {
  return quantization && kind != MatrixKind::kDown ? quantization->num_input_terms : 1;
}

}  // namespace millrace
