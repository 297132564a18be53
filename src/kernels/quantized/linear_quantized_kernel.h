// What linear_quantized.cpp asks of each instruction set: some of the output panels, for all
// tokens. Plain data only: this header is compiled for instructions that the machine may lack
// (lanes.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/linear_kernel.h"
#include "kernels/quantized/code_bits.h"
#include "kernels/quantized/quantized_format.h"

namespace millrace {

// What bytes of weights have added, so that they are multiplied without a sign.
constexpr int kInt8Zero = 128;
constexpr int kInt4Zero = 32;
constexpr int kInt6Zero = kInt4Zero;  // the inputs of both are rounded alike

// The 16 weights of int4, ascending, in units of their group's scale and with kInt4Zero added:
// 1, 4, 7, 10, 13, 17, 22 and kInt4Most of either sign, which leave the least error of groups of 64
// normally distributed numbers (what a rotation makes of weights, nearly) among those of six bits
// (integer_codebook() of tools/quantization/simulate.py). Of six, so that four products with inputs
// of 8 bits fit 16 bits together (docs/decisions/0034).
alignas(16) constexpr unsigned char kInt4Codes[16] = {
    3, 10, 15, 19, 22, 25, 28, 31, 33, 36, 39, 42, 45, 49, 54, 61};
constexpr float kInt4Most = 29.0F;
static_assert(4 * 128 * kInt4Codes[15] < 1 << 15, "four products with bytes fit 16 bits");
static_assert(8 * 128 * (kInt4Codes[15] - kInt4Zero) < 1 << 15, "eight without kInt4Zero do");
// Weights of int6 are the whole numbers up to this, of either sign.
constexpr int kInt6Most = 31;
static_assert(4 * 128 * (kInt6Most + kInt6Zero) < 1 << 15, "as with int4");
static_assert(8 * 128 * kInt6Most < 1 << 15);

// The 16 values of IQ4_NL and IQ4_XS (ggml-common.h of the ggml repository), with 128 added.
alignas(16) constexpr unsigned char kIq4Codes[16] = {
    1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241};

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
// steps of 64, of which it is in the middle: this many, -116 .. 115, and a half. `code` is without
// the kInt4Zero that it has added.
constexpr int kStepBits = 6;
constexpr int scaled_code(int code, int group_scale) {
  return (code * group_scale) >> kStepBits;
}
constexpr float kHalfStep = 32.0F;

struct QuantizedTask {
  // Encoded activations, see EncodedRows; with AMX tiles, so many bytes each: RotatedTiles for
  // int8, ByteTiles for int4, whose rows are output.x_rows.
  const unsigned char* rows;
  size_t row_stride;
  size_t num_groups;
  size_t value_bytes;           // of a group of the rows
  bool has_row_scales;          // the rows, not their groups
  bool unpacks_pairs;           // weights of fewer bits once for many tokens, not in each tile
  const unsigned char* panels;  // see QuantizedMatrix
  size_t panel_bytes;
  // Its num_tokens, bias, out, num_outputs, epilogue and, for tiles, scratch and x_rows.
  LinearTask output;
};

// Where things lie within a panel (QuantizedMatrix): scales, and bases where there are any, before
// the codes of so many groups.
struct PanelLayout {
  size_t group_bytes;        // of codes
  size_t scale_bytes;        // of a group's scales, of all rows
  size_t base_bytes = 0;     // of its bases
  size_t header_groups = 4;  // whose scales lie together

  constexpr size_t header_bytes() const { return header_groups * (scale_bytes + base_bytes); }
  constexpr size_t header_offset(size_t group) const {
    return group / header_groups * (header_groups * group_bytes + header_bytes());
  }
  constexpr size_t codes_offset(size_t group) const {
    return group * group_bytes + (group / header_groups + 1) * header_bytes();
  }
  constexpr size_t scales_offset(size_t group) const {
    return header_offset(group) + group % header_groups * scale_bytes;
  }
  constexpr size_t bases_offset(size_t group) const {
    return header_offset(group) + header_groups * scale_bytes + group % header_groups * base_bytes;
  }
  constexpr size_t row_scales_offset(size_t num_groups) const {
    return num_groups * group_bytes +
           (num_groups + header_groups - 1) / header_groups * header_bytes();
  }
};

// How a panel keeps its weights.
struct Int8Weights {
  static constexpr size_t kGroupBytes = 1024;
  static constexpr PanelLayout kLayout = {.group_bytes = kGroupBytes, .scale_bytes = 16};
};
struct Int4Weights {
  static constexpr size_t kGroupBytes = 512;
  static constexpr PanelLayout kLayout = {.group_bytes = kGroupBytes, .scale_bytes = 16};
};
struct Int6Weights {
  static constexpr size_t kLowBytes = kLowerBitsBytes;  // the upper two bits lie behind
  static constexpr size_t kGroupBytes = kLowBytes + 256;
  static constexpr PanelLayout kLayout = {.group_bytes = kGroupBytes, .scale_bytes = 16};
};
// Of a format of our own.
constexpr const PanelLayout& own_layout(QuantizedFormat format) {
  if (format == QuantizedFormat::kInt8) return Int8Weights::kLayout;
  return format == QuantizedFormat::kInt4 ? Int4Weights::kLayout : Int6Weights::kLayout;
}

// Codes of other tools. A group of 64 inputs has one part, two or four, whose inputs share a scale.
template <QuantizedFormat kFormat>
struct CodedWeights {
  static constexpr CodeFormat kCodes = kCodeFormats[static_cast<size_t>(kFormat) - kNumOwnFormats];
  static constexpr int kBits = kCodes.bits;
  static constexpr int kZeroBits = kBits - 1;
  static constexpr int kStoredBits = kCodes.is_iq4 ? 4 : kBits;
  static constexpr size_t kParts = 64 / kCodes.num_inputs;
  static constexpr size_t kPartBytes = 16 * sizeof(uint16_t);  // of scales, or of bases
  // What lies behind the lower four bits of a group's codes.
  static constexpr size_t kHighBits = kStoredBits == 8 ? 0 : kStoredBits - 4;
  static constexpr size_t kLowBytes = kStoredBits == 8 ? 1024 : kLowerBitsBytes;
  static constexpr size_t kGroupBytes = kLowBytes + kHighBits * 128;
  static constexpr PanelLayout kLayout = {
      .group_bytes = kGroupBytes,
      .scale_bytes = kParts * kPartBytes,
      .base_bytes = kCodes.has_bases ? kParts * kPartBytes : 0,
      .header_groups = 1};
};
template <class Weights>
constexpr bool kAreCodes = false;  // of other tools, whose inputs are CodedInputs
template <QuantizedFormat kFormat>
constexpr bool kAreCodes<CodedWeights<kFormat>> = true;

// Whose products with inputs of 8 bits fit 16 bits, four or eight together: as they are multiplied,
// those of int4 have six bits too.
template <class Weights>
constexpr bool kAreOfSixBits = false;
template <>
inline constexpr bool kAreOfSixBits<Int4Weights> = true;
template <>
inline constexpr bool kAreOfSixBits<Int6Weights> = true;

// Panels [panel_begin, panel_end); both even for kSiluMul. Weights: one of the above.
template <class Weights>
void linear_quantized_reference(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
template <class Weights>
void linear_quantized_avx2(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
template <class Weights>
void linear_quantized_avx512(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
template <class Weights>
void linear_quantized_avx512_vnni(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
// `function`, one of the above, for codes of that format, and of all.
#define MILLRACE_INSTANTIATE(function, format)                   \
  template void function<CodedWeights<QuantizedFormat::format>>( \
      const QuantizedTask&, size_t, size_t                       \
  );
#define MILLRACE_INSTANTIATE_CODES(function)           \
  MILLRACE_INSTANTIATE(function, kUint4AroundZero)     \
  MILLRACE_INSTANTIATE(function, kUint4By32AroundZero) \
  MILLRACE_INSTANTIATE(function, kUint4)               \
  MILLRACE_INSTANTIATE(function, kIq4)                 \
  MILLRACE_INSTANTIATE(function, kUint4By32)           \
  MILLRACE_INSTANTIATE(function, kUint4By16)           \
  MILLRACE_INSTANTIATE(function, kUint5By32)           \
  MILLRACE_INSTANTIATE(function, kUint6By16AroundZero) \
  MILLRACE_INSTANTIATE(function, kUint6By16)           \
  MILLRACE_INSTANTIATE(function, kUint8By32AroundZero)

// int4 by tiles of bytes, with AMX (docs/decisions/0020): its definition, and the kernel.
void linear_int4_amx_reference(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
void linear_int4_amx(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
// int8 by tiles of bfloat16, in the order of AMX (docs/decisions/0020): its definition, and the
// kernel.
void linear_int8_amx_reference(const QuantizedTask& task, size_t panel_begin, size_t panel_end);
void linear_int8_amx(const QuantizedTask& task, size_t panel_begin, size_t panel_end);

}  // namespace millrace
