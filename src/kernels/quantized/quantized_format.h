// The formats of quantized matrices; quantized_matrix.h has their layouts. What is compiled for
// instructions that the machine may lack reads the types and the table and calls none of these
// functions (lanes.h).
#pragma once

#include <cstddef>

namespace millrace {

// Our own, and those that keep codes of other tools as they are: by the bits of a weight, 4.25, 4.5
// (three times), 5, 6, 6, 7, 8 and 8.5.
enum class QuantizedFormat {
  kInt8,
  kInt4,
  kInt6,
  kUint4AroundZero,
  kUint4By32AroundZero,
  kUint4,
  kIq4,
  kUint4By32,
  kUint4By16,
  kUint5By32,
  kUint6By16AroundZero,
  kUint6By16,
  kUint8By32AroundZero,
};

// What codes of other tools are: of so many bits, with a scale, and perhaps a base, for so many
// inputs.
struct CodeFormat {
  int bits;
  size_t num_inputs;    // 64, 32 or 16
  bool has_bases;       // else zero_code() stands for zero
  bool is_iq4 = false;  // codes are those of kIq4Codes, and their indices are kept

  constexpr int zero_code() const { return 1 << (bits - 1); }
};

constexpr size_t kNumOwnFormats = 3;
// Of the others, in their order.
constexpr CodeFormat kCodeFormats[] = {
    {4, 64, false},
    {4, 32, false},
    {4, 64, true},
    {8, 32, false, true},
    {4, 32, true},
    {4, 16, true},
    {5, 32, true},
    {6, 16, false},
    {6, 16, true},
    {8, 32, false}};
constexpr size_t kNumCodeFormats = sizeof kCodeFormats / sizeof kCodeFormats[0];

// The place of a format of codes in kCodeFormats, and what has that place.
constexpr size_t code_format_index(QuantizedFormat format) {
  return static_cast<size_t>(format) - kNumOwnFormats;
}
constexpr QuantizedFormat format_of_index(size_t index) {
  return static_cast<QuantizedFormat>(index + kNumOwnFormats);
}
static_assert(format_of_index(kNumCodeFormats - 1) == QuantizedFormat::kUint8By32AroundZero);

constexpr bool are_codes(QuantizedFormat format) {
  return static_cast<size_t>(format) >= kNumOwnFormats;
}

// Of a weight of our own formats.
constexpr int own_bits(QuantizedFormat format) {
  if (format == QuantizedFormat::kInt8) return 8;
  return format == QuantizedFormat::kInt4 ? 4 : 6;
}

}  // namespace millrace
