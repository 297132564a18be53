// Multiplying by whole bfloat16 panels (packed_bfloat16.h) with AVX2. See lanes.h for the rules of
// this file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/lanes_avx2.h"
#include "kernels/linear_kernel.h"
#include "kernels/packed_bfloat16_layout.h"
#include "kernels/token_rows_lanes.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

// One input of a pair: its products with sixteen weights. `x`: of each token the pair's.
template <size_t kInput, size_t kTokens>
[[gnu::always_inline]] inline void add_whole_input(
    Avx2Lanes weights, const TokenRows<kTokens>& x, Avx2Lanes (&sums)[kTokens]
) {
#pragma GCC unroll 8
  for (size_t token = 0; token < kTokens; ++token) {
    const auto* const pair = reinterpret_cast<const float*>(x.row(token));
    Avx2Lanes::add_product(weights, Avx2Lanes::broadcast(pair[kInput]), sums[token]);
  }
}

// Panels of a matrix, panel_size bytes apart, times some tokens, whose rows begin at `x`: a
// multiply-add for each input, the odd one of a pair first. `out`: [kPanels][kTokens][16]. Each
// input of a pair is read by itself: the sums of six tokens leave no registers for both.
template <size_t kPanels, size_t kTokens>
[[gnu::noinline]] void multiply_whole_panels(
    const LinearTask& task, const uint8_t* panels, const float* x, size_t hint_bytes, float* out
) {
  const size_t panel_bytes = task.panel_size;
  Avx2Lanes sums[kPanels][kTokens];
  for (auto& of_panel : sums) {
    for (Avx2Lanes& sum : of_panel) sum = Avx2Lanes::zero();
  }
  TokenRows<kTokens> rows = {{}, task.x_stride * sizeof(float)};
  rows.begin_at(reinterpret_cast<const unsigned char*>(x));
  const uint8_t* pair = panels;
  for (size_t left = (task.num_inputs + 1) / 2; left > 0; --left, pair += kWholePairBytes) {
    rows.forget_origins();
#pragma GCC unroll 2
    for (size_t panel = 0; panel < kPanels; ++panel) {
      const auto* weights = reinterpret_cast<const BFloat16*>(pair + panel * panel_bytes);
      if (hint_bytes > 0) {
        __builtin_prefetch(reinterpret_cast<const uint8_t*>(weights) + hint_bytes, 0, 3);
      }
      add_whole_input<1>(Avx2Lanes::widen_odd(weights), rows, sums[panel]);
      forget_origin(weights);
      add_whole_input<0>(Avx2Lanes::widen_even(weights), rows, sums[panel]);
    }
    rows.advance(2 * sizeof(float));
  }
  for (const auto& of_panel : sums) {
    for (const Avx2Lanes& sum : of_panel) {
      Avx2Lanes::store(out, sum);
      out += kLanes;
    }
  }
}

// Panels as floats, for linear_unpacked().
struct WholeRows {
  static constexpr size_t kPairBytes = kWholePairBytes;

  static const uint8_t* block(const uint8_t* panel, size_t i) {
    return panel + i * kWholeBlockBytes;
  }
  static void unpack(const uint8_t* panel, size_t first, size_t num_blocks, float* out) {
    const auto* weights = reinterpret_cast<const BFloat16*>(block(panel, first));
    for (size_t left = num_blocks * kPackedBlockPairs; left > 0; --left) {
      Avx2Lanes::store(out, Avx2Lanes::widen_odd(weights));
      Avx2Lanes::store(out + kLanes, Avx2Lanes::widen_even(weights));
      weights += 2 * kLanes;
      out += 2 * kLanes;
    }
  }
  static void put_in_row_order(float* /*sums*/, size_t /*num_sums*/) {}
};

}  // namespace
}  // namespace millrace
