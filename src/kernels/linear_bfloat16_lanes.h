// linear on sixteen lanes for bfloat16 matrices, whose panels are unpacked first, some inputs at a
// time, so that what was unpacked stays in the first cache while all tokens of a block pass by. See
// lanes.h for the rules of this file. A type `Shape` says how many tokens a tile has at most,
// kTokensMax, and how many panels with so many tokens, panels_for(), as linear_lanes.h; and how
// many panels are unpacked at once, kPanels, to so many bytes, kUnpackedBytes.
#pragma once

#include "kernels/linear_lanes.h"
#include "kernels/packed_bfloat16_layout.h"
#include "kernels/token_blocks.h"
#include "kernels/token_rows_lanes.h"

namespace millrace {
namespace {

// Tokens that pass by together. Their inputs stay in the second cache, or come out of the third
// while products are under way.
constexpr TokenBlocks kUnpackedTokens = {
    .num_bytes_max = 2560 << 10,  // 128 tokens of 4864 inputs
    .num_tokens_max = 128,
    .num_tile_tokens = 1};

// Of each panel that is unpacked.
template <class Shape>
constexpr size_t kUnpackedInputs = Shape::kUnpackedBytes /
                                   (Shape::kPanels * kLanes * sizeof(float));

// Some tokens and panels, and some pairs of their inputs.
struct UnpackedTile {
  const float* weights;  // [panels][panel_stride]: [pairs][odd, even][16]
  size_t panel_stride;
  const float* x;  // the first of these inputs, rounded to bfloat16
  size_t x_stride;
  size_t num_pairs;
  // Of the inputs before, to which these are added: [panels][sums_stride], of these tokens.
  float* sums;
  size_t sums_stride;
  // Of the first panel what is unpacked next, or nullptr: asked for pair by pair, because memory
  // idles else while tokens pass by; of each panel panel_bytes further.
  const uint8_t* ahead;
  size_t panel_bytes;
};

// A pair's part of what is unpacked next.
template <size_t kPanels>
[[gnu::always_inline]] inline void ask_for_pair(const UnpackedTile& tile, size_t pair) {
  constexpr size_t kPairBytes = kPackedBlockBytes / kPackedBlockPairs;
#pragma GCC unroll 8
  for (size_t panel = 0; panel < kPanels; ++panel) {
    __builtin_prefetch(tile.ahead + panel * tile.panel_bytes + pair * kPairBytes, 0, 3);
  }
}

// One input of a pair: its products with `weights`, [panels][panel_stride]: [16].
template <class Lanes, size_t kInput, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void add_input(
    const float* weights,
    size_t panel_stride,
    const TokenRows<kTokens>& x,
    Lanes (&sums)[kPanels][kTokens]
) {
#pragma GCC unroll 8
  for (size_t panel = 0; panel < kPanels; ++panel) {
    const Lanes of_panel = Lanes::load(weights + panel * panel_stride);
#pragma GCC unroll 8
    for (size_t token = 0; token < kTokens; ++token) {
      const auto* const inputs = reinterpret_cast<const float*>(x.row(token));
      Lanes::add_product(of_panel, Lanes::broadcast(inputs[kInput]), sums[panel][token]);
    }
  }
}

// Two multiply-adds for each pair of inputs, the odd one first, as vdpbf16ps adds them. A function
// of its own: inlined, it would have to leave registers for what unpacking keeps in them.
template <class Lanes, size_t kPanels, size_t kTokens>
[[gnu::noinline]] void add_pairs(const UnpackedTile& tile) {
  Lanes sums[kPanels][kTokens];  // in registers: every index is known when compiling
#pragma GCC unroll 8
  for (size_t panel = 0; panel < kPanels; ++panel) {
#pragma GCC unroll 8
    for (size_t token = 0; token < kTokens; ++token) {
      sums[panel][token] = Lanes::load(tile.sums + panel * tile.sums_stride + token * kLanes);
    }
  }
  TokenRows<kTokens> x = {{}, tile.x_stride * sizeof(float)};
  x.begin_at(reinterpret_cast<const unsigned char*>(tile.x));
  const float* weights = tile.weights;
  for (size_t pair = 0; pair < tile.num_pairs; ++pair, weights += 2 * kLanes) {
    x.forget_origins();
    if (tile.ahead != nullptr) ask_for_pair<kPanels>(tile, pair);
    add_input<Lanes, 1>(weights, tile.panel_stride, x, sums);
    add_input<Lanes, 0>(weights + kLanes, tile.panel_stride, x, sums);
    x.advance(2 * sizeof(float));
  }
#pragma GCC unroll 8
  for (size_t panel = 0; panel < kPanels; ++panel) {
#pragma GCC unroll 8
    for (size_t token = 0; token < kTokens; ++token) {
      Lanes::store(tile.sums + panel * tile.sums_stride + token * kLanes, sums[panel][token]);
    }
  }
}

// For 1 .. Shape::kTokensMax tokens and as many panels as they leave registers for.
template <class Lanes, class Shape, size_t kPanels, size_t kTokens = 1>
void run_unpacked_tile(const UnpackedTile& tile, size_t num_tokens) {
  if constexpr (kTokens <= Shape::kTokensMax && kPanels <= Shape::panels_for(kTokens)) {
    if (num_tokens == kTokens) return add_pairs<Lanes, kPanels, kTokens>(tile);
    run_unpacked_tile<Lanes, Shape, kPanels, kTokens + 1>(tile, num_tokens);
  }
}

// Panels [panel, panel + kPanels), [panel + kPanels, ...) of `count` while they are there. Returns
// the first that is not done.
template <class Lanes, class Shape, size_t kPanels>
size_t run_unpacked_panels(UnpackedTile tile, size_t num_tokens, size_t panel, size_t count) {
  const float* const weights = tile.weights;
  float* const sums = tile.sums;
  const uint8_t* const ahead = tile.ahead;
  for (; panel + kPanels <= count; panel += kPanels) {
    if (ahead != nullptr) tile.ahead = ahead + panel * tile.panel_bytes;
    tile.weights = weights + panel * tile.panel_stride;
    tile.sums = sums + panel * tile.sums_stride;
    run_unpacked_tile<Lanes, Shape, kPanels>(tile, num_tokens);
  }
  return panel;
}

// `count` panels, some tokens.
template <class Lanes, class Shape>
void run_unpacked(const UnpackedTile& tile, size_t num_tokens, size_t count) {
  const size_t panels = Shape::panels_for(num_tokens);
  size_t panel = 0;
  if (panels >= 4) panel = run_unpacked_panels<Lanes, Shape, 4>(tile, num_tokens, panel, count);
  if (panels >= 2) panel = run_unpacked_panels<Lanes, Shape, 2>(tile, num_tokens, panel, count);
  run_unpacked_panels<Lanes, Shape, 1>(tile, num_tokens, panel, count);
}

// Up to Shape::kPanels panels, for a block of tokens.
template <class Lanes, class Shape, class Rows>
void run_unpacked_block(const LinearTask& task, const TilePlace& place) {
  constexpr size_t kChunkBlocks = kUnpackedInputs<Shape> / kPackedBlockColumns;
  alignas(64) float sums[Shape::kPanels * kUnpackedTokens.num_tokens_max * kLanes];
  const size_t num_sums = place.num_panels * place.num_tokens;
  for (size_t i = 0; i < num_sums; ++i) Lanes::store(sums + i * kLanes, Lanes::zero());
  auto* const unpacked = static_cast<float*>(task.scratch);
  const auto* const packed =
      static_cast<const uint8_t*>(task.weights) + place.panel_begin * task.panel_size;
  const float* const x = static_cast<const float*>(task.x) + place.token_begin * task.x_stride;
  const size_t num_blocks = (task.num_inputs + kPackedBlockColumns - 1) / kPackedBlockColumns;
  const size_t num_tiles = (place.num_tokens + Shape::kTokensMax - 1) / Shape::kTokensMax;
  for (size_t block = 0; block < num_blocks; block += kChunkBlocks) {
    const size_t rest = num_blocks - block;
    const size_t count = rest < kChunkBlocks ? rest : kChunkBlocks;
    for (size_t panel = 0; panel < place.num_panels; ++panel) {
      Rows::unpack(
          packed + panel * task.panel_size,
          block,
          count,
          unpacked + panel * kUnpackedInputs<Shape> * kLanes
      );
    }
    const size_t input = block * kPackedBlockColumns;
    const size_t num_inputs = task.num_inputs - input;  // from here on
    const uint8_t* const next =
        rest > kChunkBlocks ? packed + kPackedTableBytes + (block + count) * kPackedBlockBytes
                            : packed + place.num_panels * task.panel_size;
    const size_t num_pairs =
        rest <= kChunkBlocks ? (num_inputs + 1) / 2 : kUnpackedInputs<Shape> / 2;
    for (size_t tile = 0; tile < num_tiles; ++tile) {
      const size_t begin = place.num_tokens * tile / num_tiles;
      const size_t num_tokens = place.num_tokens * (tile + 1) / num_tiles - begin;
      const UnpackedTile of_tokens = {
          .weights = unpacked,
          .panel_stride = kUnpackedInputs<Shape> * kLanes,
          .x = x + begin * task.x_stride + input,
          .x_stride = task.x_stride,
          .num_pairs = num_pairs,
          .sums = sums + begin * kLanes,
          .sums_stride = place.num_tokens * kLanes,
          .ahead = tile == 0 ? next : nullptr,
          .panel_bytes = task.panel_size,
      };
      run_unpacked<Lanes, Shape>(of_tokens, num_tokens, place.num_panels);
    }
  }
  Rows::put_in_row_order(sums, num_sums);
  if (task.exceptions != nullptr) add_exceptions(task, place, sums, InputInRow<float>{task});
  finish_tile<Lanes>(task, place, sums);
}

// Rows::unpack(panel, block, num_blocks, out) gives blocks of a panel as floats, of each pair of
// inputs the odd one, then the even one, [num_blocks * 8][16], in an order of rows that
// Rows::put_in_row_order(sums, num_sums) ends.
template <class Lanes, class Shape, class Rows>
void linear_unpacked(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  const size_t num_tokens = task.num_tokens;
  const size_t most = kUnpackedTokens.num_tokens_of(num_tokens, task.x_stride * sizeof(float));
  for (size_t token = 0; token < num_tokens; token += most) {
    const size_t rest = num_tokens - token;
    const size_t count = rest < most ? rest : most;
    for (size_t panel = panel_begin; panel < panel_end; panel += Shape::kPanels) {
      const size_t left = panel_end - panel;
      const size_t num_panels = left < Shape::kPanels ? left : Shape::kPanels;
      run_unpacked_block<Lanes, Shape, Rows>(task, {panel, num_panels, token, count});
    }
  }
}

}  // namespace
}  // namespace millrace
