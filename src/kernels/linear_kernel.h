// What linear.cpp asks of each instruction set: some of the output panels, for all tokens.
// Plain data only: this header is compiled for instructions that the machine may lack (lanes.h).
#pragma once

#include <cstddef>

namespace millrace {

enum class LinearEpilogue {
  kStore,     // out = sum + bias
  kAddToOut,  // out = out + (sum + bias): the residual, in place
  kSiluMul,   // out = silu(gate) * up, where panels alternate: 16 rows of gate, 16 rows of up
};

struct LinearTask {
  const float* x;  // [num_tokens, num_inputs], rows x_stride apart
  size_t x_stride;
  size_t num_tokens;
  size_t num_inputs;
  const void* weights;  // [num_panels][panel_size], see packed_matrix.h
  size_t panel_size;
  const float* bias;  // [num_panels * 16] or null
  float* out;         // [num_tokens, num_outputs], rows out_stride apart
  size_t out_stride;
  size_t num_outputs;
  LinearEpilogue epilogue;
};

// Panels [panel_begin, panel_end); both even for kSiluMul. Weight: float, Float16 or BFloat16.
template <class Weight>
void linear_reference(const LinearTask& task, size_t panel_begin, size_t panel_end);
template <class Weight>
void linear_avx2(const LinearTask& task, size_t panel_begin, size_t panel_end);
template <class Weight>
void linear_avx512(const LinearTask& task, size_t panel_begin, size_t panel_end);

}  // namespace millrace
