// linear_quantized on sixteen lanes: the order in which tiles (quantized_tile_lanes.h) pass over
// panels, groups and tokens. See lanes.h for the rules of this file. A type `Shape` says how many
// tokens a tile has, tokens_for(panels), for one panel and for two, and kFewTerms (below).
#pragma once

#include "kernels/lanes.h"
#include "kernels/linear_lanes.h"
#include "kernels/quantized/code_tile_lanes.h"
#include "kernels/quantized/linear_quantized_kernel.h"
#include "kernels/quantized/quantized_tile_lanes.h"
#include "kernels/token_blocks.h"

namespace millrace {
namespace {

constexpr size_t kTilePanels = 2;  // gate and up
// Tokens that share a way through the panels: their inputs stay in the second cache, and each way
// takes the weights from memory anew.
constexpr TokenBlocks kBlocks = {
    .num_bytes_max = 528 << 10,  // 96 tokens of 4864 inputs
    .num_tokens_max = 256,
    .num_tile_tokens = 1};
// Of two panels, the part that stays in the first cache while all tokens of a block pass by.
constexpr size_t kBlockWeightBytes = 16384;
// Up to so many tokens may take one panel after another: one stream of reads, which is what the
// processor fetches ahead best (32 GB/s instead of 24 with one token and a thread for each core of
// Zen 4, docs/benchmarks/cpu_changes.md). More of them share the loads of two panels, and ask for
// the next two meanwhile: they compute for so long that the processor forgets what it fetches
// ahead.
constexpr size_t kFewTokens = 4;
// That long are more than two terms of inputs for each weight; and more than Shape::kFewTerms, if
// rows have no more groups (of each term) than these, so that inputs stay in the first cache until
// the next panel. Not where weights are asked for far ahead (QuantizedTask::output.hint_bytes).
constexpr size_t kFewTermsOfLongRows = 2;
constexpr size_t kFewGroups = 28;

// Of a tile at most. Tokens whose both bytes are multiplied at once take two sums each.
template <class Shape, class Weights>
constexpr size_t tile_tokens(size_t num_panels) {
  if (!kAreCodes<Weights>) return Shape::tokens_for(num_panels);
  return num_panels == 1 ? kFewTokens : Shape::tokens_for(num_panels) / 2;
}

// For 1 .. tile_tokens() tokens.
template <class Dots, class Shape, class Weights, class Scales, size_t kPanels, size_t kTokens = 1>
void run_quantized_tile(const QuantizedTask& task, const QuantizedTile& tile, size_t num_tokens) {
  if constexpr (kTokens <= tile_tokens<Shape, Weights>(kPanels)) {
    if (num_tokens != kTokens) {
      return run_quantized_tile<Dots, Shape, Weights, Scales, kPanels, kTokens + 1>(
          task, tile, num_tokens
      );
    }
    if constexpr (kAreCodes<Weights>) {
      add_code_groups<Dots, Weights, kPanels, kTokens>(task, tile);
    } else {
      add_groups<Dots, Weights, Scales, kPanels, kTokens>(task, tile);
    }
  }
}

// kPanels panels for a block of few tokens, one after another.
template <class Dots, class Shape, class Weights, class Scales, size_t kPanels>
void run_few(const QuantizedTask& task, const TilePlace& place) {
  static_assert(kFewTokens <= tile_tokens<Shape, Weights>(1));
  alignas(64) float sums[kPanels * kFewTokens * kLanes];
  for (size_t panel = 0; panel < kPanels; ++panel) {
    const QuantizedTile tile = {
        .panel = place.panel_begin + panel,
        .token = place.token_begin,
        .group_begin = 0,
        .group_end = task.num_groups,
        .sums = sums + panel * place.num_tokens * kLanes,
        .hint_bytes = task.output.hint_bytes,
    };
    run_quantized_tile<Dots, Shape, Weights, Scales, 1>(task, tile, place.num_tokens);
  }
  finish_tile<typename Dots::Floats>(task.output, place, sums);
}

// Part `index` of `count` of the next kPanels panels, which lie one after the other. Past the last
// panel hints ask for what nobody reads.
template <size_t kPanels>
WeightsAhead share_of_next(
    const QuantizedTask& task, const TilePlace& place, size_t index, size_t count
) {
  const size_t num_lines = kPanels * task.panel_bytes / 64;
  const size_t first = num_lines * index / count;
  const size_t last = num_lines * (index + 1) / count;
  const unsigned char* next = task.panels + (place.panel_begin + kPanels) * task.panel_bytes;
  return {
      .data = next + first * 64,
      .num_lines = last - first,
      .is_soon = task.output.hint_bytes > 0,
  };
}

// kPanels panels for a block of tokens, dealt evenly over tiles.
template <class Dots, class Shape, class Weights, class Scales, size_t kPanels>
void run_block(const QuantizedTask& task, const TilePlace& place) {
  alignas(64) float sums[kPanels * kBlocks.num_tokens_max * kLanes];
  constexpr size_t kTokensMax = tile_tokens<Shape, Weights>(kPanels);
  constexpr size_t kBlockGroups = kBlockWeightBytes / (kPanels * Weights::kGroupBytes);
  const size_t num_tiles = (place.num_tokens + kTokensMax - 1) / kTokensMax;
  // Two tiles are soon done: the second finds all groups in the second cache.
  const bool is_short = num_tiles <= 2;
  const size_t num_passes = is_short ? 1 : (task.num_groups + kBlockGroups - 1) / kBlockGroups;
  const auto pass_begin = [&](size_t pass) { return task.num_groups * pass / num_passes; };
  for (size_t pass = 0; pass < num_passes; ++pass) {
    const bool is_last = pass + 1 == num_passes;
    for (size_t i = 0; i < num_tiles; ++i) {
      const size_t begin = place.num_tokens * i / num_tiles;
      const size_t count = place.num_tokens * (i + 1) / num_tiles - begin;
      const size_t step = pass * num_tiles + i;
      const QuantizedTile tile = {
          .panel = place.panel_begin,
          .token = place.token_begin + begin,
          .group_begin = pass_begin(pass),
          .group_end = pass_begin(pass + 1),
          .sums = sums + begin * kPanels * kLanes,
          .ahead = share_of_next<kPanels>(task, place, step, num_passes * num_tiles),
      };
      run_quantized_tile<Dots, Shape, Weights, Scales, kPanels>(task, tile, count);
      if (is_last) {
        const TilePlace done = {place.panel_begin, kPanels, tile.token, count};
        finish_tile<typename Dots::Floats>(task.output, done, tile.sums);
      }
    }
  }
}

// Whether so many tokens pass by one panel after the other.
template <class Shape>
bool are_few(const QuantizedTask& task, size_t num_tokens) {
  if (num_tokens > kFewTokens) return false;
  if (task.output.hint_bytes > 0) return true;
  const bool are_short_rows = task.num_groups * task.num_terms <= kFewGroups;
  const size_t num_terms_max = are_short_rows ? Shape::kFewTerms : kFewTermsOfLongRows;
  return num_tokens * task.num_terms <= num_terms_max;
}

template <class Dots, class Shape, class Weights, class Scales, size_t kPanels>
void run_quantized_panels(const QuantizedTask& task, const TilePlace& place) {
  if (are_few<Shape>(task, place.num_tokens)) {
    run_few<Dots, Shape, Weights, Scales, kPanels>(task, place);
  } else {
    run_block<Dots, Shape, Weights, Scales, kPanels>(task, place);
  }
}

template <class Dots, class Shape, class Weights, class Scales>
void run_all_panels(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  const size_t num_tokens = task.output.num_tokens;
  const size_t num_block_tokens = kBlocks.num_tokens_of(num_tokens, task.row_stride);
  for (size_t token = 0; token < num_tokens; token += num_block_tokens) {
    const size_t rest = num_tokens - token;
    const size_t count = rest < num_block_tokens ? rest : num_block_tokens;
    size_t panel = panel_begin;
    for (; panel + kTilePanels <= panel_end; panel += kTilePanels) {
      run_quantized_panels<Dots, Shape, Weights, Scales, kTilePanels>(
          task, {panel, kTilePanels, token, count}
      );
    }
    if (panel < panel_end) {
      run_quantized_panels<Dots, Shape, Weights, Scales, 1>(task, {panel, 1, token, count});
    }
  }
}

template <class Dots, class Shape>
void linear_quantized_lanes(Int8Weights, const QuantizedTask& task, size_t begin, size_t end) {
  if (task.has_row_scales) {
    run_all_panels<Dots, Shape, Int8Weights, RowScales>(task, begin, end);
  } else {
    run_all_panels<Dots, Shape, Int8Weights, GroupScales>(task, begin, end);
  }
}
// Nobody rounds the inputs of int4 by groups, and those of codes otherwise.
template <class Dots, class Shape>
void linear_quantized_lanes(Int4Weights, const QuantizedTask& task, size_t begin, size_t end) {
  run_all_panels<Dots, Shape, Int4Weights, RowScales>(task, begin, end);
}
template <class Dots, class Shape, class Weights>
requires kAreCodes<Weights>
void linear_quantized_lanes(Weights, const QuantizedTask& task, size_t begin, size_t end) {
  run_all_panels<Dots, Shape, Weights, GroupScales>(task, begin, end);
}

}  // namespace
}  // namespace millrace
