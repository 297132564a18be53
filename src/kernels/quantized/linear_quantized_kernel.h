// What linear_quantized.cpp asks of each instruction set: some of the output panels, for all
// tokens. Plain data only: this header is compiled for instructions that the machine may lack
// (lanes.h).
#pragma once

#include <cstddef>

#include "kernels/linear_kernel.h"

namespace millrace {

// The 16 weights of int4, ascending, in units of their group's scale and with 128 added, as bytes
// are multiplied: Lloyd's algorithm on groups of 64 normally distributed numbers, which is what a
// rotation makes of weights nearly (gaussian_codebook() of tools/quantization/simulate.py).
alignas(16) constexpr unsigned char kInt4Codes[16] = {
    1, 31, 51, 67, 81, 95, 108, 121, 134, 148, 161, 175, 189, 205, 225, 255};

struct QuantizedTask {
  const unsigned char* rows;  // encoded activations, see EncodedRows
  size_t row_stride;
  size_t num_groups;
  size_t num_terms;             // of each group of the rows
  const unsigned char* panels;  // see QuantizedMatrix
  size_t panel_bytes;
  LinearTask output;  // its num_tokens, bias, out, num_outputs and epilogue
};

// How a panel keeps its weights.
struct Int8Weights {
  static constexpr size_t kGroupBytes = 1024;
};
struct Int4Weights {
  static constexpr size_t kGroupBytes = 512;
};

// Where things lie within a panel (QuantizedMatrix): 64 bytes of scales before every four groups.
constexpr size_t kScaledGroups = 4;
constexpr size_t group_offset(size_t group_bytes, size_t group) {
  return group * group_bytes + (group / kScaledGroups + 1) * 64;
}
constexpr size_t group_scales_offset(size_t group_bytes, size_t group) {
  const size_t first = group / kScaledGroups * kScaledGroups;
  return first * group_bytes + first * 16 + group % kScaledGroups * 16;
}
constexpr size_t row_scales_offset(size_t group_bytes, size_t num_groups) {
  return num_groups * group_bytes + (num_groups + kScaledGroups - 1) / kScaledGroups * 64;
}

// Panels [panel_begin, panel_end); both even for kSiluMul. Weights: one of the above.
template <class Weights>
void linear_quantized_reference(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
template <class Weights>
void linear_quantized_avx2(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
template <class Weights>
void linear_quantized_avx512(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
template <class Weights>
void linear_quantized_avx512_dot(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
template <class Weights>
void linear_quantized_amx(const QuantizedTask& task, size_t panel_begin, size_t panel_end);

}  // namespace millrace
