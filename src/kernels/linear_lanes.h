// linear on sixteen lanes: tiles of panels x tokens whose sums stay in registers. See lanes.h for
// the rules of this file.
#pragma once

#include "kernels/exp_lanes.h"
#include "kernels/lanes.h"
#include "kernels/linear_kernel.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

// The weights of one panel for input k (kOdd false) or k + 1 (kOdd true), where k is even for
// bfloat16, whose inputs lie in pairs.
template <class Lanes, bool kOdd, class Weight>
[[gnu::always_inline]] inline Lanes panel_weights(const Weight* panel, size_t k) {
  return Lanes::load(panel + (k + (kOdd ? 1 : 0)) * kLanes);
}
template <class Lanes, bool kOdd>
[[gnu::always_inline]] inline Lanes panel_weights(const BFloat16* panel, size_t k) {
  return kOdd ? Lanes::widen_odd(panel + k * kLanes) : Lanes::widen_even(panel + k * kLanes);
}

// Adds input k (kOdd false) or k + 1 to the sums of kPanels panels for kTokens tokens.
template <class Lanes, bool kOdd, class Weight, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void add_input(
    const LinearTask& task,
    const Weight* panels,
    const float* x,
    size_t k,
    Lanes (&sums)[kPanels][kTokens]
) {
#pragma GCC unroll 8
  for (size_t panel = 0; panel < kPanels; ++panel) {
    const Lanes weights = panel_weights<Lanes, kOdd>(panels + panel * task.panel_size, k);
#pragma GCC unroll 8
    for (size_t token = 0; token < kTokens; ++token) {
      const float input = x[token * task.x_stride + k + (kOdd ? 1 : 0)];
      sums[panel][token] = Lanes::fma(weights, Lanes::broadcast(input), sums[panel][token]);
    }
  }
}

// The sums of kPanels panels for kTokens tokens. `out`: [kPanels][kTokens][16].
template <class Lanes, class Weight, size_t kPanels, size_t kTokens>
void sum_tile(const LinearTask& task, size_t panel_begin, size_t token_begin, float* out) {
  const Weight* panels = static_cast<const Weight*>(task.weights) + panel_begin * task.panel_size;
  const float* x = task.x + token_begin * task.x_stride;
  Lanes sums[kPanels][kTokens];  // in registers: every index below is known when compiling
#pragma GCC unroll 8
  for (size_t panel = 0; panel < kPanels; ++panel) {
#pragma GCC unroll 8
    for (size_t token = 0; token < kTokens; ++token) sums[panel][token] = Lanes::zero();
  }
  size_t k = 0;
  for (; k + 2 <= task.num_inputs; k += 2) {
    add_input<Lanes, false>(task, panels, x, k, sums);
    add_input<Lanes, true>(task, panels, x, k, sums);
  }
  if (k < task.num_inputs) add_input<Lanes, false>(task, panels, x, k, sums);
#pragma GCC unroll 8
  for (size_t panel = 0; panel < kPanels; ++panel) {
#pragma GCC unroll 8
    for (size_t token = 0; token < kTokens; ++token) {
      Lanes::store(out + (panel * kTokens + token) * kLanes, sums[panel][token]);
    }
  }
}

struct TilePlace {
  size_t panel_begin;
  size_t num_panels;
  size_t token_begin;
  size_t num_tokens;
};

// The sum of one panel for one token, with its bias.
template <class Lanes>
[[gnu::always_inline]] inline Lanes tile_values(
    const LinearTask& task, const TilePlace& place, const float* sums, size_t panel, size_t token
) {
  const Lanes sum = Lanes::load(sums + (panel * place.num_tokens + token) * kLanes);
  if (task.bias == nullptr) return sum;
  return Lanes::add(sum, Lanes::load(task.bias + (place.panel_begin + panel) * kLanes));
}

// Writes 16 outputs from `column` on, fewer at the end of a row.
template <class Lanes>
[[gnu::always_inline]] inline void write_outputs(
    const LinearTask& task, Lanes values, size_t token, size_t column
) {
  float* out = task.out + token * task.out_stride + column;
  const size_t rest = task.num_outputs - column;
  const bool add = task.epilogue == LinearEpilogue::kAddToOut;
  if (rest >= kLanes) {
    Lanes::store(out, add ? Lanes::add(Lanes::load(out), values) : values);
  } else {
    values = add ? Lanes::add(Lanes::load_first(out, rest), values) : values;
    Lanes::store_first(out, values, rest);
  }
}

template <class Lanes>
void finish_tile(const LinearTask& task, const TilePlace& place, const float* sums) {
  const bool gated = task.epilogue == LinearEpilogue::kSiluMul;
  for (size_t panel = 0; panel < place.num_panels; panel += gated ? 2 : 1) {
    const size_t column = (place.panel_begin + panel) / (gated ? 2 : 1) * kLanes;
    for (size_t token = 0; token < place.num_tokens; ++token) {
      Lanes values = tile_values<Lanes>(task, place, sums, panel, token);
      if (gated) {
        const Lanes up = tile_values<Lanes>(task, place, sums, panel + 1, token);
        values = Lanes::mul(silu_lanes(values), up);
      }
      write_outputs(task, values, place.token_begin + token, column);
    }
  }
}

// A tile of kPanels panels and 1 .. Shape::kTokensMax tokens. Shape::panels_for(n) is the number of
// panels that leaves registers for n tokens; wider tiles are not compiled.
template <class Lanes, class Shape, class Weight, size_t kPanels, size_t kTokens = 1>
void run_tile(const LinearTask& task, const TilePlace& place) {
  if constexpr (kTokens <= Shape::kTokensMax && kPanels <= Shape::panels_for(kTokens)) {
    if (place.num_tokens == kTokens) {
      alignas(64) float sums[kPanels * kTokens * kLanes];
      sum_tile<Lanes, Weight, kPanels, kTokens>(task, place.panel_begin, place.token_begin, sums);
      finish_tile<Lanes>(task, place, sums);
    } else {
      run_tile<Lanes, Shape, Weight, kPanels, kTokens + 1>(task, place);
    }
  }
}

// All tokens for kPanels panels: the weights come from memory once and stay in the cache. The
// tokens are dealt evenly over the tiles, so that none is much narrower than the others.
template <class Lanes, class Shape, class Weight, size_t kPanels>
void run_panels(const LinearTask& task, size_t panel_begin, size_t num_tiles) {
  for (size_t tile = 0; tile < num_tiles; ++tile) {
    const size_t begin = task.num_tokens * tile / num_tiles;
    const size_t end = task.num_tokens * (tile + 1) / num_tiles;
    run_tile<Lanes, Shape, Weight, kPanels>(task, {panel_begin, kPanels, begin, end - begin});
  }
}

template <class Lanes, class Shape, class Weight>
void linear_lanes(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  const size_t num_tiles = (task.num_tokens + Shape::kTokensMax - 1) / Shape::kTokensMax;
  const size_t tile_tokens_max = (task.num_tokens + num_tiles - 1) / num_tiles;
  const size_t panels_max = Shape::panels_for(tile_tokens_max);
  size_t panel = panel_begin;
  for (; panel + 8 <= panel_end && panels_max >= 8; panel += 8) {
    run_panels<Lanes, Shape, Weight, 8>(task, panel, num_tiles);
  }
  for (; panel + 4 <= panel_end && panels_max >= 4; panel += 4) {
    run_panels<Lanes, Shape, Weight, 4>(task, panel, num_tiles);
  }
  for (; panel + 2 <= panel_end; panel += 2) {
    run_panels<Lanes, Shape, Weight, 2>(task, panel, num_tiles);
  }
  for (; panel < panel_end; ++panel) {
    run_panels<Lanes, Shape, Weight, 1>(task, panel, num_tiles);
  }
}

}  // namespace
}  // namespace millrace
