// What becomes of a tile's sums on sixteen lanes: bias, silu(gate) * up or addition, and the
// outputs. See lanes.h for the rules of this file.
#pragma once

#include "kernels/exp_lanes.h"
#include "kernels/lanes.h"
#include "kernels/linear_kernel.h"

namespace millrace {
namespace {

struct TilePlace {
  size_t panel_begin;
  size_t num_panels;
  size_t token_begin;
  size_t num_tokens;
};

// `bias`: sixteen of them, or null.
template <class Lanes>
[[gnu::always_inline]] inline Lanes with_bias(const float* sums, const float* bias) {
  const Lanes values = Lanes::load(sums);
  return bias == nullptr ? values : Lanes::add(values, Lanes::load(bias));
}

// silu(gate) * up of sixteen outputs. `sums`, `bias`: the gate's; the up's lie so much further.
template <class Lanes>
[[gnu::always_inline]] inline Lanes gated_values(
    const float* sums, size_t up_distance, const float* bias
) {
  const Lanes gate = with_bias<Lanes>(sums, bias);
  const Lanes up = with_bias<Lanes>(sums + up_distance, bias == nullptr ? bias : bias + kLanes);
  return Lanes::mul(silu_lanes(gate), up);
}

// Sixteen outputs, fewer at the end of a row, of all tokens of a tile. `panel`: of the matrix;
// `sums`: its own, [num_tokens][16]. What a task says is read before the loop: for all the compiler
// knows, each store may change it.
template <class Lanes, bool kIsGated>
void finish_column(
    const LinearTask& task, const TilePlace& place, size_t panel, const float* sums
) {
  const size_t column = panel / (kIsGated ? 2 : 1) * kLanes;
  const size_t rest = task.num_outputs - column;
  const bool adds = task.epilogue == LinearEpilogue::kAddToOut;
  const float* const bias = task.bias == nullptr ? nullptr : task.bias + panel * kLanes;
  const size_t num_tokens = place.num_tokens;
  const size_t stride = task.out_stride;
  float* out = task.out + place.token_begin * stride + column;
  for (size_t token = 0; token < num_tokens; ++token, sums += kLanes, out += stride) {
    Lanes values;
    if constexpr (kIsGated) {
      values = gated_values<Lanes>(sums, num_tokens * kLanes, bias);
    } else {
      values = with_bias<Lanes>(sums, bias);
    }
    if (rest >= kLanes) {
      Lanes::store(out, adds ? Lanes::add(Lanes::load(out), values) : values);
    } else {
      if (adds) values = Lanes::add(Lanes::load_first(out, rest), values);
      Lanes::store_first(out, values, rest);
    }
  }
}

// Writes a tile's outputs. `sums`: [num_panels][num_tokens][16].
template <class Lanes>
void finish_tile(const LinearTask& task, const TilePlace& place, const float* sums) {
  const bool is_gated = task.epilogue == LinearEpilogue::kSiluMul;
  for (size_t i = 0; i < place.num_panels; i += is_gated ? 2 : 1) {
    const float* own = sums + i * place.num_tokens * kLanes;
    is_gated ? finish_column<Lanes, true>(task, place, place.panel_begin + i, own)
             : finish_column<Lanes, false>(task, place, place.panel_begin + i, own);
  }
}

// Asks for what finish_tile() will write, before the sums are computed: stores wait for their lines
// one after the other, and rows of a long batch lie far apart. To gcc 12 a function that only
// prefetches has no effect: it would drop calls of this one, and drops those of a function that
// does nothing but call it (tests/instructions).
[[gnu::always_inline]] inline void ask_for_outputs(const LinearTask& task, const TilePlace& place) {
  const size_t panels_per_line = task.epilogue == LinearEpilogue::kSiluMul ? 2 : 1;
  const float* out =
      task.out + place.token_begin * task.out_stride + place.panel_begin / panels_per_line * kLanes;
  for (size_t token = 0; token < place.num_tokens; ++token, out += task.out_stride) {
    for (size_t i = 0; i < place.num_panels / panels_per_line; ++i) {
      __builtin_prefetch(out + i * kLanes, 1, 3);
    }
  }
}

}  // namespace
}  // namespace millrace
