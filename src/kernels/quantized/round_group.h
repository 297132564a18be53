// How a rotated row of weights is rounded to 8, 6 or 4 bits: first the scales, then the codes.
#pragma once

#include <array>
#include <optional>
#include <span>

#include "kernels/quantized/quantized_matrix.h"
#include "kernels/quantized/round_panel_kernel.h"

namespace millrace {

// int8: code + kInt8Zero. int6: code + kInt6Zero. int4: the index in the codebook.
using GroupCodes = std::array<unsigned char, QuantizedMatrix::kGroup>;

// None of int4.
constexpr std::optional<WholeCodes> whole_codes(QuantizedFormat format) {
  if (format == QuantizedFormat::kInt8) return kWholeCodes<Int8Weights>;
  if (format == QuantizedFormat::kInt6) return kWholeCodes<Int6Weights>;
  return std::nullopt;
}

// Multiplies the row by `factor`, replaces what is not finite, and chooses its scales: the whole
// numbers 1 .. 255 of its groups, into `group_scales`, and the float that it returns. int8 and
// int6 clip nothing; int4 takes what leaves the smallest squared error of each group.
// `row`: [num_groups * 64]; `group_scales`: [num_groups].
float scale_groups(
    QuantizedFormat format, std::span<float> row, float factor, std::span<float> group_scales
);

// The nearest codes; scale 0 makes zeros.
GroupCodes round_group(
    QuantizedFormat format, std::span<const float, QuantizedMatrix::kGroup> values, float scale
);

// Puts the codes of one row's group into their places in a panel. `group`: where the group begins.
void put_codes(QuantizedFormat format, unsigned char* group, size_t row, const GroupCodes& codes);

}  // namespace millrace
