// How a tile of linear_quantized scales its groups' integer sums, on sixteen lanes. See lanes.h for
// the rules of this file, quantized_tile_lanes.h for what `Dots` are.
#pragma once

#include "kernels/lanes.h"
#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/quantized/linear_quantized_kernel.h"
#include "kernels/quantized/tile_memory_lanes.h"

namespace millrace {
namespace {

constexpr size_t kGroupInputs = 64;

// Of inputs: one for each group, or for each token, whose products are scaled in the end; and
// whether inputs have 16 bits.
struct GroupScales {
  static constexpr bool kAreOfRows = false;
  static constexpr bool kAreOfNumbers = false;
};
struct RowScales {
  static constexpr bool kAreOfRows = true;
  static constexpr bool kAreOfNumbers = false;
};
struct RowScalesOfNumbers {
  static constexpr bool kAreOfRows = true;
  static constexpr bool kAreOfNumbers = true;
};

// What is scaled: the scales of a group's weights, of the first panel, and of its inputs, of the
// first token.
struct ScalesPlace {
  const unsigned char* weights;
  size_t panel_bytes;
  const unsigned char* inputs;
};

// Adds a group's sums times the scales of its weights and of its inputs. The integer sums began
// with the bits of kRoundingShift (EncodedRows), so that their own bits are the floats
// kRoundingShift + sum, and one fused operation multiplies them by the weights' scale, as exactly
// as a conversion and a product would: a scale has at most eleven bits, and its product with
// kRoundingShift is exact.
template <class Dots, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void add_scaled(
    GroupScales,
    const GroupPlace<Dots, kPanels, kTokens>& place,
    const ScalesPlace& scales,
    const typename Dots::Sums (&sums)[kPanels][kTokens],
    typename Dots::Floats (&totals)[kPanels][kTokens]
) {
  using Floats = typename Dots::Floats;
  Floats group_scales[kPanels];
  Floats shifts[kPanels];
#pragma GCC unroll 8
  for (size_t panel = 0; panel < kPanels; ++panel) {
    const unsigned char* p = scales.weights + panel * scales.panel_bytes;
    group_scales[panel] = Dots::load_scales(p);
    shifts[panel] = Floats::mul(group_scales[panel], Floats::broadcast(kRoundingShift));
  }
  const unsigned char* input_scales = scales.inputs;
#pragma GCC unroll 12
  for (size_t token = 0; token < kTokens; ++token) {
    const Floats input_scale = Floats::broadcast(*reinterpret_cast<const float*>(input_scales));
#pragma GCC unroll 8
    for (size_t panel = 0; panel < kPanels; ++panel) {
      const Floats sum = Dots::as_floats(sums[panel][token]);
      const Floats product = Floats::fms(sum, group_scales[panel], shifts[panel]);
      totals[panel][token] = Floats::fma(product, input_scale, totals[panel][token]);
    }
    input_scales += place.inputs.stride;
    forget_origin(input_scales);
  }
}

// A group's sum as a number.
template <class Dots>
[[gnu::always_inline]] inline typename Dots::Floats number_of(RowScales, typename Dots::Sums sum) {
  using Floats = typename Dots::Floats;
  return Floats::sub(Dots::as_floats(sum), Floats::broadcast(kRoundingShift));
}
template <class Dots>
[[gnu::always_inline]] inline typename Dots::Floats number_of(
    RowScalesOfNumbers, typename Dots::Sums sum
) {
  return Dots::to_floats(sum);
}

// The same but for the inputs' scales: one operation less of those that wait for the products'
// units.
template <class Dots, class Scales, size_t kPanels, size_t kTokens>
requires(Scales::kAreOfRows) [[gnu::always_inline]] inline void add_scaled(
    Scales,
    const GroupPlace<Dots, kPanels, kTokens>&,
    const ScalesPlace& scales,
    const typename Dots::Sums (&sums)[kPanels][kTokens],
    typename Dots::Floats (&totals)[kPanels][kTokens]
) {
  using Floats = typename Dots::Floats;
#pragma GCC unroll 8
  for (size_t panel = 0; panel < kPanels; ++panel) {
    const Floats group_scale = Dots::load_scales(scales.weights + panel * scales.panel_bytes);
#pragma GCC unroll 12
    for (size_t token = 0; token < kTokens; ++token) {
      const Floats sum = number_of<Dots>(Scales{}, sums[panel][token]);
      totals[panel][token] = Floats::fma(sum, group_scale, totals[panel][token]);
    }
  }
}

// What a token's sums are multiplied by after the last group, besides the scale of the weights'
// row. `row`: its own.
[[gnu::always_inline]] inline float
scale_of_token(GroupScales, const QuantizedTask&, const unsigned char*) {
  return 1.0F;
}
template <class Scales>
[[gnu::always_inline]] inline float scale_of_token(
    Scales, const QuantizedTask& task, const unsigned char* row
) {
  const size_t of_group = task.value_bytes + sizeof(int32_t);
  return *reinterpret_cast<const float*>(row + task.num_groups * of_group);
}

}  // namespace
}  // namespace millrace
