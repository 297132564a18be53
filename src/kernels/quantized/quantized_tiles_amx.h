// What products of quantized matrices by tiles share: their task as that of multiply_by_tiles(),
// and the scales of rows. See lanes.h for the rules of this file.
#pragma once

#include <cstddef>

#include "kernels/lanes_avx512.h"
#include "kernels/quantized/linear_quantized_kernel.h"
#include "kernels/tile_product_amx.h"

namespace millrace {
namespace {

constexpr size_t kGroupInputs = 64;

// `Weights`, of multiply_by_tiles(), are of `task`.
template <class Weights>
void multiply_quantized(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  LinearTask product = task.output;
  product.x = task.rows;
  product.x_stride = task.row_stride / sizeof(typename Weights::Products::Element);
  product.num_inputs = task.num_groups * kGroupInputs;
  product.weights = task.panels;
  product.panel_size = task.panel_bytes;
  multiply_by_tiles<Weights>(product, panel_begin, panel_end);
}

[[gnu::always_inline]] inline const unsigned char* panel_at(const LinearTask& task, size_t panel) {
  return static_cast<const unsigned char*>(task.weights) + panel * task.panel_size;
}

// Multiplies a tile's sums, [place.num_panels][place.num_tokens][16], by the rows' scales and
// `factor`. value(token, sums): sixteen of them as floats.
template <class Weights, class Value>
void scale_rows(
    const LinearTask& task, const TilePlace& place, float* sums, float factor, const Value& value
) {
  const size_t offset = Weights::kLayout.row_scales_offset(task.num_inputs / kGroupInputs);
  for (size_t panel = 0; panel < place.num_panels; ++panel) {
    const unsigned char* scales = panel_at(task, place.panel_begin + panel) + offset;
    const Avx512Lanes rows = Avx512Lanes::load(reinterpret_cast<const float*>(scales));
    const Avx512Lanes factors = Avx512Lanes::mul(rows, Avx512Lanes::broadcast(factor));
    for (size_t token = 0; token < place.num_tokens; ++token, sums += kLanes) {
      const Avx512Lanes values = value(place.token_begin + token, sums);
      Avx512Lanes::store(sums, Avx512Lanes::mul(values, factors));
    }
  }
}

}  // namespace
}  // namespace millrace
