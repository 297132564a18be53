// linear_quantized on sixteen lanes: tiles of panels x tokens whose integer sums over a group stay
// in registers. See lanes.h for the rules of this file. A type `Dots` says how sixteen rows' sums
// are kept and multiplied:
//
//   Floats, Weights, Inputs, Sums     sixteen floats; 16 x 4 bytes; four inputs; sixteen integers
//   load_weights(p)                   64 bytes
//   low_codes(p, lut), high_codes     the lower and upper four bits of 64 bytes, looked up
//   load_table(p)                     sixteen bytes, for the two above
//   broadcast_inputs(p), broadcast_sum(i)
//   dot(weights, inputs, sums)        sums + the exact products of unsigned weights, signed inputs
//   to_floats(sums)
//   load_scales(p)                    sixteen unsigned bytes as floats
//
// Sums over a group are exact, so their order is free; floats are added group by group, ascending.
#pragma once

#include "kernels/lanes.h"
#include "kernels/linear_lanes.h"
#include "kernels/quantized/linear_quantized_kernel.h"

namespace millrace {
namespace {

constexpr size_t kGroupInputs = 64;
constexpr size_t kExpandedGroupBytes = kGroupInputs * kLanes;
// Tokens whose sums are kept at a time: whole tiles of six, 24 KiB for four panels. Measured 5 %
// faster than 64 for int8.
constexpr size_t kBlockTokens = 96;

// One group of some panels.
struct GroupPlace {
  const unsigned char* weights;  // of the first panel
  size_t weights_stride;         // from panel to panel
  const unsigned char* scales;   // of the first panel; the next ones task.panel_bytes apart
  size_t group;
};

// Some tokens of a block, and where the block's sums lie: [panel][block_tokens][16].
struct TokenPlace {
  size_t token_begin;  // within the batch
  size_t tile_begin;   // within the block
  size_t block_tokens;
  float* sums;
};

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

// Inputs 8 * step to + 4, or the four after those.
template <class Dots, class Weights, bool kHigh, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void add_four_inputs(
    const GroupPlace& place,
    const unsigned char* inputs,
    size_t row_stride,
    size_t step,
    typename Dots::Table table,
    typename Dots::Sums (&sums)[kPanels][kTokens]
) {
  typename Dots::Weights weights[kPanels];
#pragma GCC unroll 8
  for (size_t panel = 0; panel < kPanels; ++panel) {
    const unsigned char* group = place.weights + panel * place.weights_stride;
    weights[panel] = read_weights<Dots, kHigh>(Weights{}, group, step, table);
  }
#pragma GCC unroll 8
  for (size_t token = 0; token < kTokens; ++token) {
    const unsigned char* four = inputs + token * row_stride + step * 8 + (kHigh ? 4 : 0);
    const typename Dots::Inputs input = Dots::broadcast_inputs(four);
#pragma GCC unroll 8
    for (size_t panel = 0; panel < kPanels; ++panel) {
      sums[panel][token] = Dots::dot(weights[panel], input, sums[panel][token]);
    }
  }
}

// Adds one group's products to the sums of kPanels panels for kTokens tokens.
template <class Dots, class Weights, size_t kPanels, size_t kTokens>
void add_group(const QuantizedTask& task, const GroupPlace& place, const TokenPlace& tokens) {
  using Floats = typename Dots::Floats;
  const unsigned char* row = task.rows + tokens.token_begin * task.row_stride;
  const unsigned char* inputs = row + place.group * kGroupInputs;
  const float* scales = reinterpret_cast<const float*>(row + task.num_groups * kGroupInputs);
  const int* offsets = reinterpret_cast<const int*>(scales + task.num_groups);
  const size_t next_row = task.row_stride / sizeof(float);
  typename Dots::Sums sums[kPanels][kTokens];  // in registers: every index is known when compiling
#pragma GCC unroll 8
  for (size_t token = 0; token < kTokens; ++token) {
#pragma GCC unroll 8
    for (size_t panel = 0; panel < kPanels; ++panel) {
      sums[panel][token] = Dots::broadcast_sum(offsets[token * next_row + place.group]);
    }
  }
  const typename Dots::Table table = Dots::load_table();
#pragma GCC unroll 8
  for (size_t step = 0; step < kGroupInputs / 8; ++step) {
    add_four_inputs<Dots, Weights, false>(place, inputs, task.row_stride, step, table, sums);
    add_four_inputs<Dots, Weights, true>(place, inputs, task.row_stride, step, table, sums);
  }
#pragma GCC unroll 8
  for (size_t panel = 0; panel < kPanels; ++panel) {
    const Floats weight_scales = Dots::load_scales(place.scales + panel * task.panel_bytes);
#pragma GCC unroll 8
    for (size_t token = 0; token < kTokens; ++token) {
      float* out = tokens.sums + (panel * tokens.block_tokens + tokens.tile_begin + token) * kLanes;
      const Floats product = Floats::mul(Dots::to_floats(sums[panel][token]), weight_scales);
      const Floats scale = Floats::broadcast(scales[token * next_row + place.group]);
      Floats::store(out, Floats::fma(product, scale, Floats::load(out)));
    }
  }
}

// A tile of kPanels panels and 1 .. Shape::kTokensMax tokens; wider ones than Shape::panels_for()
// allows are not compiled.
template <class Dots, class Shape, class Weights, size_t kPanels, size_t kTokens = 1>
void run_quantized_tile(
    const QuantizedTask& task, const GroupPlace& place, const TokenPlace& tokens, size_t num_tokens
) {
  if constexpr (kTokens <= Shape::kTokensMax && kPanels <= Shape::panels_for(kTokens)) {
    if (num_tokens == kTokens) {
      add_group<Dots, Weights, kPanels, kTokens>(task, place, tokens);
    } else {
      run_quantized_tile<Dots, Shape, Weights, kPanels, kTokens + 1>(
          task, place, tokens, num_tokens
      );
    }
  }
}

// All tokens of a block, dealt evenly over its tiles.
template <class Dots, class Shape, class Weights, size_t kPanels>
void run_tiles(
    const QuantizedTask& task, const GroupPlace& place, const TokenPlace& block, size_t num_tiles
) {
  for (size_t tile = 0; tile < num_tiles; ++tile) {
    const size_t begin = block.block_tokens * tile / num_tiles;
    const size_t end = block.block_tokens * (tile + 1) / num_tiles;
    const TokenPlace tokens = {block.token_begin + begin, begin, block.block_tokens, block.sums};
    run_quantized_tile<Dots, Shape, Weights, kPanels>(task, place, tokens, end - begin);
  }
}

// One group of kPanels panels with a byte a weight, for a block's many tiles.
template <class Dots, size_t kPanels>
void expand_group(const GroupPlace& place, unsigned char* out) {
  const typename Dots::Table table = Dots::load_table();
  for (size_t panel = 0; panel < kPanels; ++panel) {
    const unsigned char* group = place.weights + panel * place.weights_stride;
    unsigned char* expanded = out + panel * kExpandedGroupBytes;
    for (size_t step = 0; step < kGroupInputs / 8; ++step) {
      Dots::store_weights(expanded + 2 * step * 64, Dots::low_codes(group + step * 64, table));
      Dots::store_weights(
          expanded + (2 * step + 1) * 64, Dots::high_codes(group + step * 64, table)
      );
    }
  }
}

template <class Dots, class Shape, size_t kPanels>
void run_group(
    Int8Weights, const QuantizedTask& task, const GroupPlace& place, const TokenPlace& block
) {
  const size_t num_tiles = (block.block_tokens + Shape::kTokensMax - 1) / Shape::kTokensMax;
  run_tiles<Dots, Shape, Int8Weights, kPanels>(task, place, block, num_tiles);
}
template <class Dots, class Shape, size_t kPanels>
void run_group(
    Int4Weights, const QuantizedTask& task, const GroupPlace& place, const TokenPlace& block
) {
  const size_t num_tiles = (block.block_tokens + Shape::kTokensMax - 1) / Shape::kTokensMax;
  if (num_tiles <= 2) {
    run_tiles<Dots, Shape, Int4Weights, kPanels>(task, place, block, num_tiles);
    return;
  }
  alignas(64) unsigned char expanded[kPanels * kExpandedGroupBytes];
  expand_group<Dots, kPanels>(place, expanded);
  const GroupPlace bytes = {expanded, kExpandedGroupBytes, place.scales, place.group};
  run_tiles<Dots, Shape, Int8Weights, kPanels>(task, bytes, block, num_tiles);
}

// kPanels panels for one block of tokens.
template <class Dots, class Shape, class Weights, size_t kPanels>
void run_block(const QuantizedTask& task, size_t panel_begin, size_t token_begin, size_t count) {
  using Floats = typename Dots::Floats;
  alignas(64) float sums[kPanels * (kPanels > 4 ? Shape::kTokensMax : kBlockTokens) * kLanes];
  for (size_t i = 0; i < kPanels * count; ++i) Floats::store(sums + i * kLanes, Floats::zero());
  const unsigned char* panels = task.panels + panel_begin * task.panel_bytes;
  const unsigned char* scales = panels + task.num_groups * Weights::kGroupBytes;
  const TokenPlace block = {token_begin, 0, count, sums};
  for (size_t group = 0; group < task.num_groups; ++group) {
    const GroupPlace place = {
        panels + group * Weights::kGroupBytes, task.panel_bytes, scales + group * kLanes, group};
    run_group<Dots, Shape, kPanels>(Weights{}, task, place, block);
  }
  for (size_t panel = 0; panel < kPanels; ++panel) {
    const unsigned char* after = scales + panel * task.panel_bytes + task.num_groups * kLanes;
    const Floats row_scales = Floats::load(reinterpret_cast<const float*>(after));
    for (size_t token = 0; token < count; ++token) {
      float* sum = sums + (panel * count + token) * kLanes;
      Floats::store(sum, Floats::mul(Floats::load(sum), row_scales));
    }
  }
  finish_tile<Floats>(task.output, {panel_begin, kPanels, token_begin, count}, sums);
}

// All tokens for kPanels panels: the weights come from memory once and stay in the cache.
template <class Dots, class Shape, class Weights, size_t kPanels>
void run_quantized_panels(const QuantizedTask& task, size_t panel_begin) {
  const size_t num_tokens = task.output.num_tokens;
  for (size_t begin = 0; begin < num_tokens; begin += kBlockTokens) {
    const size_t left = num_tokens - begin;
    const size_t count = left < kBlockTokens ? left : kBlockTokens;
    run_block<Dots, Shape, Weights, kPanels>(task, panel_begin, begin, count);
  }
}

template <class Dots, class Shape, class Weights>
void linear_quantized_lanes(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  const size_t num_tokens = task.output.num_tokens;
  const size_t tile_tokens = num_tokens < Shape::kTokensMax ? num_tokens : Shape::kTokensMax;
  const size_t panels_max = Shape::panels_for(tile_tokens);
  size_t panel = panel_begin;
  for (; panel + 8 <= panel_end && panels_max >= 8; panel += 8) {
    run_quantized_panels<Dots, Shape, Weights, 8>(task, panel);
  }
  for (; panel + 4 <= panel_end && panels_max >= 4; panel += 4) {
    run_quantized_panels<Dots, Shape, Weights, 4>(task, panel);
  }
  for (; panel + 2 <= panel_end; panel += 2) {
    run_quantized_panels<Dots, Shape, Weights, 2>(task, panel);
  }
  for (; panel < panel_end; ++panel) {
    run_quantized_panels<Dots, Shape, Weights, 1>(task, panel);
  }
}

}  // namespace
}  // namespace millrace
