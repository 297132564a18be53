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

// Whole panels for linear_lanes(): a multiply-add for each input, the odd one of a pair first.
struct WholePairs {
  using Input = float;

  // The sums of kPanels panels for kTokens tokens, the first of which ask memory for what follows.
  // Of several tokens each panel by itself; a single one takes all side by side, because each
  // multiply-add waits for the one before. `out`: [kPanels][kTokens][16].
  template <size_t kPanels, size_t kTokens>
  static void sum_tile(const LinearTask& task, size_t panel_begin, size_t token_begin, float* out) {
    const auto* panel = static_cast<const uint8_t*>(task.weights) + panel_begin * task.panel_size;
    const float* const x = static_cast<const float*>(task.x) + token_begin * task.x_stride;
    const size_t hint_bytes = token_begin == 0 ? task.hint_bytes : 0;
    constexpr size_t kTogether = kTokens == 1 ? kPanels : 1;
    for (size_t i = 0; i < kPanels; i += kTogether) {
      multiply<kTogether, kTokens>(task, panel, x, hint_bytes, out);
      panel += kTogether * task.panel_size;
      out += kTogether * kTokens * kLanes;
    }
  }

 private:
  // Each input of a pair is read by itself, so that the other takes no registers meanwhile.
  template <size_t kPanels, size_t kTokens>
  [[gnu::noinline]] static void multiply(
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
        const uint8_t* const both = pair + panel * panel_bytes;
        if (hint_bytes > 0) __builtin_prefetch(both + hint_bytes, 0, 3);
        const auto* weights = reinterpret_cast<const BFloat16*>(both);
        add_input<1>(Avx2Lanes::widen_odd(weights), rows, sums[panel]);
        forget_origin(weights);
        add_input<0>(Avx2Lanes::widen_even(weights), rows, sums[panel]);
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

  // One input of a pair: its products with sixteen weights.
  template <size_t kInput, size_t kTokens>
  [[gnu::always_inline]] static void add_input(
      Avx2Lanes weights, const TokenRows<kTokens>& x, Avx2Lanes (&sums)[kTokens]
  ) {
#pragma GCC unroll 8
    for (size_t token = 0; token < kTokens; ++token) {
      const auto* const pair = reinterpret_cast<const float*>(x.row(token));
      Avx2Lanes::add_product(weights, Avx2Lanes::broadcast(pair[kInput]), sums[token]);
    }
  }
};

}  // namespace
}  // namespace millrace
