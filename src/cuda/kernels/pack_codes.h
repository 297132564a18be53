// Matrices of codes on their way from the processor's layout (QuantizedMatrix) into that which
// linear_quantized() multiplies (code_tiles.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/linear.h"
#include "cuda/stream.h"
#include "kernels/quantized/quantized_matrix.h"

namespace millrace::cuda {

// Of a code of our own formats there: those of int6 become int8's.
constexpr uint32_t num_device_bits(QuantizedFormat format) {
  return format == QuantizedFormat::kInt4 ? 4 : 8;
}

struct PackCodesArgs {
  QuantizedFormat format = QuantizedFormat::kInt8;  // of our own
  const void* panels = nullptr;                     // some of the matrix, as they lie in it; device
  size_t num_panels = 0;                            // kSiluMul: even, as is first_panel
  size_t num_inputs = 0;
  LinearEpilogue epilogue = LinearEpilogue::kStore;  // kSiluMul: panels of gate and up in turn
  size_t first_panel = 0;                            // what panel 0 is counted as
  void* packed = nullptr;                            // num_code_bytes(), device
};

// No panels: nothing happens.
void pack_codes(StreamHandle stream, const PackCodesArgs& args);

}  // namespace millrace::cuda
