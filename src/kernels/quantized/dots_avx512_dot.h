// The dot products of AVX-512 VNNI for linear_quantized_lanes.h. See lanes.h for the rules of this
// file.
#pragma once

#include <immintrin.h>

#include <cstddef>

#include "kernels/quantized/dots_avx512.h"

namespace millrace {
namespace {

struct VnniDots : Avx512DotsBase {
  [[gnu::always_inline]] static Sums dot(Weights weights, Inputs inputs, Sums sums) {
    return _mm512_dpbusd_epi32(sums, weights, inputs);
  }
};

// 32 registers: twice 2 x 6 sums, 2 panels of weights, an input, the codes and their mask.
struct VnniTileShape {
  static constexpr size_t tokens_for(size_t num_panels) { return num_panels == 1 ? 8 : 6; }
};

}  // namespace
}  // namespace millrace
