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

// Of inputs: one for each group, or for each token, whose products are scaled in the end.
struct GroupScales {};
struct RowScales {};

// What is scaled: the scales of a group's weights, of the first panel, and of its inputs, of the
// first token. Those of a token's second term are a part of those of the first.
struct ScalesPlace {
  const unsigned char* weights;
  size_t panel_bytes;
  const unsigned char* inputs;
  size_t term;
};

// Adds a group's sums times the scales of its weights and of its inputs. The integer sums began
// with the bits of kRoundingShift (EncodedRows), so that their own bits are the floats
// kRoundingShift + sum, and one fused operation multiplies them by the weights' scale, as exactly
// as a conversion and a product would: a scale has at most eleven bits, and its product with
// kRoundingShift is exact.
template <class Dots, class Weights, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void add_scaled(
    GroupScales,
    const GroupPlace<kPanels, kTokens>& place,
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

// The same but for the inputs' scales: one operation less of those that wait for the products'
// units.
template <class Dots, class Weights, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void add_scaled(
    RowScales,
    const GroupPlace<kPanels, kTokens>&,
    const ScalesPlace& scales,
    const typename Dots::Sums (&sums)[kPanels][kTokens],
    typename Dots::Floats (&totals)[kPanels][kTokens]
) {
  using Floats = typename Dots::Floats;
  const Floats of_term = Floats::broadcast(scales.term == 0 ? 1.0F : kSecondTermScale);
#pragma GCC unroll 8
  for (size_t panel = 0; panel < kPanels; ++panel) {
    const unsigned char* p = scales.weights + panel * scales.panel_bytes;
    const Floats group_scale = Floats::mul(Dots::load_scales(p), of_term);
#pragma GCC unroll 12
    for (size_t token = 0; token < kTokens; ++token) {
      const Floats shifted = Dots::as_floats(sums[panel][token]);
      const Floats sum = Floats::sub(shifted, Floats::broadcast(kRoundingShift));
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
[[gnu::always_inline]] inline float scale_of_token(
    RowScales, const QuantizedTask& task, const unsigned char* row
) {
  const size_t num_parts = task.num_groups * task.num_terms;
  return *reinterpret_cast<const float*>(row + num_parts * (kGroupInputs + sizeof(float)));
}

}  // namespace
}  // namespace millrace
