// How a tile of linear_quantized makes weights of a panel's codes. See lanes.h for the rules of
// this file, quantized_tile_lanes.h for what `Dots` are.
#pragma once

#include <cstddef>

#include "kernels/quantized/linear_quantized_kernel.h"

namespace millrace {
namespace {

// What codes become weights by, which all groups share.
template <class Dots>
[[gnu::always_inline]] inline typename Dots::Table decoder_of(
    Int4Weights, const unsigned char*, size_t
) {
  return Dots::load_table();
}
// Nothing.
template <class Dots>
[[gnu::always_inline]] inline typename Dots::Table decoder_of(
    Int8Weights, const unsigned char*, size_t
) {
  return Dots::load_table();
}
// Each group's own. `panel`: where its panel begins.
template <class Dots>
[[gnu::always_inline]] inline typename Dots::Zeros decoder_of(
    Uint4Weights, const unsigned char* panel, size_t group
) {
  return Dots::load_zeros(panel + Uint4Weights::kLayout.zeros_offset(group));
}
template <class Dots, class Weights>
using Decoder = decltype(decoder_of<Dots>(Weights{}, nullptr, 0));

template <class Dots, bool kHigh>
[[gnu::always_inline]] inline typename Dots::Weights read_weights(
    Int8Weights, const unsigned char* group, size_t step, typename Dots::Table
) {
  return Dots::load_weights(group + (2 * step + (kHigh ? 1 : 0)) * 64);
}
template <class Dots, bool kHigh>
[[gnu::always_inline]] inline typename Dots::Weights read_weights(
    Int4Weights, const unsigned char* group, size_t step, typename Dots::Table table
) {
  return kHigh ? Dots::high_codes(group + step * 64, table)
               : Dots::low_codes(group + step * 64, table);
}
template <class Dots, bool kHigh>
[[gnu::always_inline]] inline typename Dots::Weights read_weights(
    Uint4Weights, const unsigned char* group, size_t step, typename Dots::Zeros zeros
) {
  return kHigh ? Dots::high_differences(group + step * 64, zeros)
               : Dots::low_differences(group + step * 64, zeros);
}

}  // namespace
}  // namespace millrace
