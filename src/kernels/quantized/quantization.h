// How a model's matrices are quantized: what is kept of them, and what their inputs are multiplied
// as. The spellings of `--quantization`:
//
//   int8    weights of 8 bits, inputs of 16 bits, two terms of 8: the near-lossless one. The inputs
//           of `down` have one term (model/input_rounding.h), whose second costs the most time for
//           what it brings
//   w8a8    the same weights, inputs of 8 bits: faster with many tokens at once, and worse
//   int4    weights of 4 bits, of the output head of 6 (docs/decisions/0037), inputs of 8 bits with
//           one scale a token, which lose nothing beside them
//   stored  weights that arrived as codes of up to 8 bits, as they are, and inputs of 16 bits
//
// docs/decisions/0015, 0022, 0024 and 0027 have the numbers. With AMX inputs of int8 and of w8a8
// are bfloat16 and both are the same; those of int4 have one scale a token (0020). Without VNNI
// inputs of 16 bits take as long as those of 8 (0032).
#pragma once

#include <optional>
#include <string_view>

#include "kernels/quantized/input_rounding.h"
#include "kernels/quantized/quantized_matrix.h"

namespace millrace {

struct Quantization {
  QuantizedFormat format;  // where codes stay as they are stored, that of those of 4 bits
  InputRounding rounding;  // of the inputs of most matrices

  // As its weights are multiplied where nothing else is asked for.
  constexpr Quantization(QuantizedFormat kept)  // NOLINT(google-explicit-constructor)
      : format(kept),
        rounding(
            are_codes(kept)                  ? InputRounding::kUnrotated
            : kept == QuantizedFormat::kInt8 ? InputRounding::kTwoTerms
                                             : InputRounding::kRow
        ) {}

  static constexpr Quantization w8a8() {
    Quantization result = QuantizedFormat::kInt8;
    result.rounding = InputRounding::kGroups;
    return result;
  }

  // Each matrix has a format of its own (model/coded_matrices.h).
  static constexpr Quantization stored() { return QuantizedFormat::kUint4; }
  constexpr bool keeps_codes() const { return rounding == InputRounding::kUnrotated; }

  friend bool operator==(const Quantization&, const Quantization&) = default;
};

[[nodiscard]] std::string_view name_of(const Quantization& quantization);
[[nodiscard]] std::optional<Quantization> quantization_from_name(std::string_view name);

}  // namespace millrace
