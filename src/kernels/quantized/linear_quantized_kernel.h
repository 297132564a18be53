// What linear_quantized.cpp asks of each instruction set: some of the output panels, for all
// tokens. Plain data only: this header is compiled for instructions that the machine may lack
// (lanes.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear_kernel.h"

namespace millrace {

// The 16 weights of int4, ascending, in units of their group's scale and with 128 added, as bytes
// are multiplied: Lloyd's algorithm on groups of 64 normally distributed numbers, which is what a
// rotation makes of weights nearly (gaussian_codebook() of tools/quantization/simulate.py).
alignas(16) constexpr unsigned char kInt4Codes[16] = {
    1, 31, 51, 67, 81, 95, 108, 121, 134, 148, 161, 175, 189, 205, 225, 255};

// Which byte of 16 each byte of a register of 64 takes: those of sixteen rows, each four times.
struct RowOfByte {
  alignas(64) unsigned char rows[64] = {};
  constexpr RowOfByte() {
    for (unsigned char i = 0; i < 64; ++i) rows[i] = i / 4;
  }
};
inline constexpr RowOfByte kRowOfByte;

// A weight of int8 as tiles multiply it: code * group scale, rounded to binary16 (`bits`, not
// denormal) and cut to the significand of bfloat16, times 2^-16. That only moves the exponent's
// bits and adds to them; 0 becomes 2^-31, as much as 1/32768 of the least code.
constexpr uint16_t cut_to_bfloat16(uint16_t bits) {
  return static_cast<uint16_t>(((static_cast<int16_t>(bits) >> 3) & 0x8FFF) | 0x3000);
}
// What rows' scales are multiplied by for that: 2^16, and what cutting takes away from normally
// distributed weights (the factor that leaves the least error).
constexpr float kCutScale = 65536.0F * (1.0F + 1.0F / 440.0F);

// A weight of int4 as tiles multiply it, so that all of a row have one scale: code * group scale in
// steps of 256, of which it is in the middle: this many, -127 .. 126, and a half. `code` is without
// the 128 that it has added.
constexpr int scaled_code(int code, int group_scale) {
  return (code * group_scale) >> 8;
}
constexpr float kHalfStep = 128.0F;

struct QuantizedTask {
  // Encoded activations, see EncodedRows; with AMX tiles, so many bytes each: RotatedTiles for
  // int8, ByteTiles for int4, whose rows are output.x_rows.
  const unsigned char* rows;
  size_t row_stride;
  size_t num_groups;
  size_t num_terms;             // of each group of the rows
  bool has_row_scales;          // the rows, not their groups
  const unsigned char* panels;  // see QuantizedMatrix
  size_t panel_bytes;
  // Its num_tokens, bias, out, num_outputs, epilogue and, for tiles, scratch and x_rows.
  LinearTask output;
};

// Where things lie within a panel (QuantizedMatrix): scales before every four groups, and zero
// points where there are any.
struct PanelLayout {
  size_t group_bytes;     // of codes
  size_t scale_bytes;     // of the 16 scales of a group
  size_t zero_bytes = 0;  // of its 16 zero points

  static constexpr size_t kScaledGroups = 4;

  constexpr size_t header_bytes() const { return kScaledGroups * (scale_bytes + zero_bytes); }
  constexpr size_t header_offset(size_t group) const {
    return group / kScaledGroups * (kScaledGroups * group_bytes + header_bytes());
  }
  constexpr size_t codes_offset(size_t group) const {
    return group * group_bytes + (group / kScaledGroups + 1) * header_bytes();
  }
  constexpr size_t scales_offset(size_t group) const {
    return header_offset(group) + group % kScaledGroups * scale_bytes;
  }
  constexpr size_t zeros_offset(size_t group) const {
    return header_offset(group) + kScaledGroups * scale_bytes + group % kScaledGroups * zero_bytes;
  }
  constexpr size_t row_scales_offset(size_t num_groups) const {
    return num_groups * group_bytes +
           (num_groups + kScaledGroups - 1) / kScaledGroups * header_bytes();
  }
};

// How a panel keeps its weights; kHasTwoTerms: their inputs always have two, with scales of groups.
struct Int8Weights {
  static constexpr size_t kGroupBytes = 1024;
  static constexpr bool kHasTwoTerms = false;
  static constexpr PanelLayout kLayout = {.group_bytes = kGroupBytes, .scale_bytes = 16};
};
struct Int4Weights {
  static constexpr size_t kGroupBytes = 512;
  static constexpr bool kHasTwoTerms = false;
  static constexpr PanelLayout kLayout = {.group_bytes = kGroupBytes, .scale_bytes = 16};
};
struct Uint4Weights {
  static constexpr size_t kGroupBytes = 512;
  static constexpr bool kHasTwoTerms = true;
  static constexpr PanelLayout kLayout = {
      .group_bytes = kGroupBytes, .scale_bytes = 32, .zero_bytes = 16};
};

// Panels [panel_begin, panel_end); both even for kSiluMul. Weights: one of the above.
template <class Weights>
void linear_quantized_reference(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
template <class Weights>
void linear_quantized_avx2(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
template <class Weights>
void linear_quantized_avx512(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
template <class Weights>
void linear_quantized_avx512_dot(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
// int4 by tiles of bytes, with AMX (docs/decisions/0020): its definition, and the kernel.
void linear_int4_amx_reference(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
void linear_int4_amx(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
// int8 by tiles of bfloat16, in the order of AMX (docs/decisions/0020): its definition, and the
// kernel.
void linear_int8_amx_reference(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
void linear_int8_amx(const QuantizedTask& task, size_t panel_begin, size_t panel_end);

}  // namespace millrace
