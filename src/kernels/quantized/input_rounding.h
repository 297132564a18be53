// How the inputs of a quantized matrix are rounded to 8 or 16 bits. What is compiled for
// instructions that the machine may lack reads the enum and calls no function (lanes.h).
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace {

enum class InputRounding : uint8_t {
  kGroups,    // a scale for each 64 inputs
  kRow,       // one scale for all of a token: products are scaled in half the operations
  kTwoTerms,  // 16 bits, as two terms of 8, with one scale for all of a token
  // 16 bits, with a scale for each 64 inputs, which are not rotated: for weights that arrived
  // quantized and so are not rotated either.
  kUnrotated,
};

// The bytes of an input, and how often products of bytes multiply a weight.
constexpr size_t num_terms_of(InputRounding rounding) {
  return rounding == InputRounding::kTwoTerms || rounding == InputRounding::kUnrotated ? 2 : 1;
}

// Whether a row has one scale, not one for each group.
constexpr bool has_row_scales(InputRounding rounding) {
  return rounding == InputRounding::kRow || rounding == InputRounding::kTwoTerms;
}

constexpr bool is_rotated(InputRounding rounding) {
  return rounding != InputRounding::kUnrotated;
}

}  // namespace millrace
