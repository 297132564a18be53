// linear on sixteen lanes: tiles of panels x tokens whose sums stay in registers. See lanes.h for
// the rules of this file.
#pragma once

#include "kernels/finish_tile_lanes.h"
#include "kernels/lanes.h"
#include "kernels/linear_kernel.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

// A fused multiply-add for each input. T, what the matrix holds: float or Float16.
template <class Lanes, class T>
struct EachInput {
  using Input = float;

  // The sums of kPanels panels for kTokens tokens. `out`: [kPanels][kTokens][16].
  template <size_t kPanels, size_t kTokens>
  static void sum_tile(const LinearTask& task, size_t panel_begin, size_t token_begin, float* out) {
    const T* panels = static_cast<const T*>(task.weights) + panel_begin * task.panel_size;
    const float* x = static_cast<const float*>(task.x) + token_begin * task.x_stride;
    Lanes sums[kPanels][kTokens];  // in registers: every index below is known when compiling
#pragma GCC unroll 8
    for (size_t panel = 0; panel < kPanels; ++panel) {
#pragma GCC unroll 12
      for (size_t token = 0; token < kTokens; ++token) sums[panel][token] = Lanes::zero();
    }
    for (size_t input = 0; input < task.num_inputs; ++input, panels += kLanes, ++x) {
#pragma GCC unroll 8
      for (size_t panel = 0; panel < kPanels; ++panel) {
        const Lanes weights = Lanes::load(panels + panel * task.panel_size);
#pragma GCC unroll 12
        for (size_t token = 0; token < kTokens; ++token) {
          const Lanes inputs = Lanes::broadcast(x[token * task.x_stride]);
          sums[panel][token] = Lanes::fma(weights, inputs, sums[panel][token]);
        }
      }
    }
#pragma GCC unroll 8
    for (size_t panel = 0; panel < kPanels; ++panel) {
#pragma GCC unroll 12
      for (size_t token = 0; token < kTokens; ++token) {
        Lanes::store(out + (panel * kTokens + token) * kLanes, sums[panel][token]);
      }
    }
  }
};

[[gnu::always_inline]] inline float widened(float value) {
  return value;
}
[[gnu::always_inline]] inline float widened(BFloat16 value) {
  const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
  float result;
  __builtin_memcpy(&result, &bits, sizeof(result));
  return result;
}

// An input of a task, where they lie in rows.
template <class Input>
struct InputInRow {
  const LinearTask& task;

  [[gnu::always_inline]] float operator()(size_t token, size_t column) const {
    return widened(static_cast<const Input*>(task.x)[token * task.x_stride + column]);
  }
};

// The weights that their panels leave out, after all others, in the order of their columns.
// `input_at(token, column)` says what they are multiplied by.
template <class InputAt>
void add_exceptions(
    const LinearTask& task, const TilePlace& place, float* sums, const InputAt& input_at
) {
  for (size_t panel = 0; panel < place.num_panels; ++panel) {
    const PanelExceptions& exceptions = task.exceptions[place.panel_begin + panel];
    for (size_t i = 0; i < exceptions.size; ++i) {
      const WeightException& exception = exceptions.data[i];
      const float weight = widened(BFloat16{exception.bits});
      for (size_t token = 0; token < place.num_tokens; ++token) {
        const float input = input_at(place.token_begin + token, exception.column);
        float& sum = sums[(panel * place.num_tokens + token) * kLanes + exception.row];
        sum = __builtin_fmaf(weight, input, sum);
      }
    }
  }
}

// A tile of kPanels panels and 1 .. Shape::kTokensMax tokens, whose sums are Format::sum_tile().
// `Input` is what the activations hold. Shape::panels_for(n) is the number of panels that leaves
// registers for n tokens; wider tiles are not compiled.
template <class Lanes, class Shape, class Format, size_t kPanels, size_t kTokens = 1>
void run_tile(const LinearTask& task, const TilePlace& place) {
  if constexpr (kTokens <= Shape::kTokensMax && kPanels <= Shape::panels_for(kTokens)) {
    if (place.num_tokens == kTokens) {
      alignas(64) float sums[kPanels * kTokens * kLanes];
      ask_for_outputs(task, place);
      Format::template sum_tile<kPanels, kTokens>(task, place.panel_begin, place.token_begin, sums);
      if (task.exceptions != nullptr) {
        add_exceptions(task, place, sums, InputInRow<typename Format::Input>{task});
      }
      finish_tile<Lanes>(task, place, sums);
    } else {
      run_tile<Lanes, Shape, Format, kPanels, kTokens + 1>(task, place);
    }
  }
}

// Panels [panel, panel + kPanels), [panel + kPanels, ...) while they are there, each for all
// tokens: the weights come from memory once and stay in the cache. The tokens are dealt evenly over
// the tiles, so that none is much narrower than the others. Returns the first panel not done.
template <class Lanes, class Shape, class Format, size_t kPanels>
size_t run_panels(const LinearTask& task, size_t panel, size_t panel_end, size_t num_tiles) {
  for (; panel + kPanels <= panel_end; panel += kPanels) {
    for (size_t tile = 0; tile < num_tiles; ++tile) {
      const size_t begin = task.num_tokens * tile / num_tiles;
      const size_t end = task.num_tokens * (tile + 1) / num_tiles;
      run_tile<Lanes, Shape, Format, kPanels>(task, {panel, kPanels, begin, end - begin});
    }
  }
  return panel;
}

template <class Lanes, class Shape, class Format>
void linear_lanes(const LinearTask& task, size_t panel, size_t panel_end) {
  const size_t tile_tokens = Shape::tile_tokens_for(task.num_tokens);
  const size_t num_tiles = (task.num_tokens + tile_tokens - 1) / tile_tokens;
  const size_t panels = Shape::panels_for((task.num_tokens + num_tiles - 1) / num_tiles);
  if (panels >= 8) panel = run_panels<Lanes, Shape, Format, 8>(task, panel, panel_end, num_tiles);
  if (panels >= 4) panel = run_panels<Lanes, Shape, Format, 4>(task, panel, panel_end, num_tiles);
  panel = run_panels<Lanes, Shape, Format, 2>(task, panel, panel_end, num_tiles);
  run_panels<Lanes, Shape, Format, 1>(task, panel, panel_end, num_tiles);
}

}  // namespace
}  // namespace millrace
