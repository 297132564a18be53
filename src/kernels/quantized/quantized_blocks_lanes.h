// How linear_quantized passes a panel or two by a block of tokens, tile by tile
// (quantized_kernel_lanes.h), on sixteen lanes. See lanes.h for the rules of this file.
#pragma once

#include "kernels/lanes.h"
#include "kernels/linear_lanes.h"
#include "kernels/quantized/linear_quantized_kernel.h"
#include "kernels/quantized/quantized_kernel_lanes.h"
#include "kernels/token_blocks.h"

namespace millrace {
namespace {

constexpr size_t kTilePanels = 2;  // gate and up
// Tokens that share a way through the panels: their inputs stay in the second cache, and each way
// takes the weights from memory anew.
constexpr TokenBlocks kBlocks = {
    .num_bytes_max = 528 << 10,  // 96 tokens of 4864 inputs in a byte each
    .num_tokens_max = 256,
    .num_tile_tokens = 1};
// Processors that want hints so far ahead (Zen 5) want those of many tokens in the first cache too,
// not in the second, and five to eight tokens by two panels, not by one (docs/decisions/0021).
constexpr size_t kFarHintBytes = 8 << 10;
// Of two panels, the part that stays in the first cache while all tokens of a block pass by.
constexpr size_t kBlockWeightBytes = 16384;
// What follows the sums of all tiles of a block, which lie tile after tile, a tile's panels one
// after the other.
template <class Floats>
void finish_tiles(
    const QuantizedTask& task, const TilePlace& place, const TokenTiles& tiles, const float* sums
) {
  for (size_t i = 0; i < tiles.num_tiles; ++i) {
    const size_t begin = tiles.begin(i);
    const TilePlace done = {
        place.panel_begin, place.num_panels, place.token_begin + begin, tiles.count(i)};
    finish_tile<Floats>(task.output, done, sums + begin * place.num_panels * kLanes);
  }
}

// kPanels panels for a block of few tokens, one after another: tile after tile, of which the first
// has its weights from memory and the others from a cache.
template <class Kernel, size_t kPanels>
void run_few(const QuantizedTask& task, const TilePlace& place) {
  constexpr size_t kTileTokens = Kernel::few_tile_tokens();
  static_assert(kTileTokens <= Kernel::tile_tokens(1));
  constexpr bool kIsOneTile = Kernel::few_tokens_max() == kTileTokens;  // known when compiling
  alignas(64) float sums[kPanels * Kernel::few_tokens_max() * kLanes];
  const TokenTiles tiles(
      place.num_tokens, kIsOneTile ? 1 : (place.num_tokens + kTileTokens - 1) / kTileTokens
  );
  for (size_t panel = 0; panel < kPanels; ++panel) {
    for (size_t i = 0; i < tiles.num_tiles; ++i) {
      const size_t begin = tiles.begin(i);
      const size_t count = tiles.count(i);
      const QuantizedTile tile = {
          .panel = place.panel_begin + panel,
          .token = place.token_begin + begin,
          .group_begin = 0,
          .group_end = task.num_groups,
          .sums = sums + (begin * kPanels + panel * count) * kLanes,
          .hint_bytes = task.output.hint_bytes,
      };
      run_quantized_tile<Kernel, 1, Kernel::tile_tokens(1)>(task, tile, count);
    }
  }
  finish_tiles<typename Kernel::Dots::Floats>(task, place, tiles, sums);
}

// The panels after those of `place`, as many as they are, which lie one after the other: so many
// tiles ask for a share of their lines each, with so many groups of each pass, rounded upwards.
// Past the last panel hints ask for what nobody reads.
struct NextPanels {
  const unsigned char* data;
  size_t lines_per_tile;
  bool is_soon;

  NextPanels(const QuantizedTask& task, const TilePlace& place, size_t num_tiles)
      : data(task.panels + (place.panel_begin + place.num_panels) * task.panel_bytes),
        lines_per_tile((place.num_panels * task.panel_bytes / 64 + num_tiles - 1) / num_tiles),
        is_soon(task.output.hint_bytes >= kFarHintBytes) {}

  size_t lines_per_group(size_t num_groups) const {
    return (lines_per_tile + num_groups - 1) / num_groups;
  }
  WeightsAhead share(size_t tile, size_t lines_each) const {
    return {data + tile * lines_per_tile * 64, lines_each, is_soon};
  }
};

// kPanels panels for a block of tokens, at once.
template <class Kernel, size_t kPanels>
void run_block(const QuantizedTask& task, const TilePlace& place) {
  alignas(64) float sums[kPanels * kBlocks.num_tokens_max * kLanes];
  constexpr size_t kTokensMax = Kernel::tile_tokens(kPanels);
  constexpr size_t kOneTileTokens = Kernel::one_tile_tokens(kPanels);
  static_assert(kOneTileTokens >= kTokensMax);
  alignas(64) unsigned char unpacked[Kernel::kUnpacksPairs ? kBlockWeightBytes : 1];
  const bool is_one_tile = place.num_tokens <= kOneTileTokens;
  const size_t num_tiles = is_one_tile ? 1 : (place.num_tokens + kTokensMax - 1) / kTokensMax;
  const TokenTiles tiles(place.num_tokens, num_tiles);
  // Two tiles are soon done: the second finds all groups in the second cache.
  const bool is_short = num_tiles <= 2;
  const bool unpacks = Kernel::kUnpacksPairs && task.unpacks_pairs && !is_short;
  const size_t group_bytes =
      unpacks ? kUnpackedGroupBytes<typename Kernel::Dots> : Kernel::Weights::kGroupBytes;
  const size_t block_groups = kBlockWeightBytes / (kPanels * group_bytes);
  const size_t num_passes = is_short ? 1 : (task.num_groups + block_groups - 1) / block_groups;
  const NextPanels next(task, place, num_passes * num_tiles);
  size_t group_begin = 0;
  size_t step = 0;
  for (size_t pass = 0; pass < num_passes; ++pass) {
    const size_t group_end = task.num_groups * (pass + 1) / num_passes;
    const size_t lines_per_group = next.lines_per_group(group_end - group_begin);
    const bool is_last = pass + 1 == num_passes;
    if (unpacks) {
      for (size_t panel = 0; panel < kPanels; ++panel) {
        Kernel::unpack(
            task.panels + (place.panel_begin + panel) * task.panel_bytes,
            group_begin,
            group_end,
            unpacked + panel * (kBlockWeightBytes / kPanels)
        );
      }
    }
    for (size_t i = 0; i < num_tiles; ++i, ++step) {
      const size_t begin = tiles.begin(i);
      const size_t count = tiles.count(i);
      const QuantizedTile tile = {
          .panel = place.panel_begin,
          .token = place.token_begin + begin,
          .group_begin = group_begin,
          .group_end = group_end,
          .sums = sums + begin * kPanels * kLanes,
          .unpacked = unpacked,
          .unpacked_stride = kBlockWeightBytes / kPanels,
          .ahead = next.share(step, lines_per_group),
      };
      const TilePlace done = {place.panel_begin, kPanels, tile.token, count};
      if (is_last) ask_for_outputs(task.output, done);
      if (unpacks) {
        run_quantized_tile<typename Kernel::OfManyTiles, kPanels, kTokensMax>(task, tile, count);
      } else {
        run_quantized_tile<Kernel, kPanels, kOneTileTokens>(task, tile, count);
      }
      if (is_last) {
        finish_tile<typename Kernel::Dots::Floats>(task.output, done, tile.sums);
      }
    }
    group_begin = group_end;
  }
}

// The same where Dots unpack: one panel after another, whose groups are unpacked for all tokens.
template <class Kernel, size_t kPanels>
void run_unpacked_block(const QuantizedTask& task, const TilePlace& place) {
  constexpr size_t kBlockGroups = kBlockWeightBytes / kUnpackedGroupBytes<typename Kernel::Dots>;
  constexpr size_t kTokensMax = Kernel::tile_tokens(1);
  alignas(64) unsigned char unpacked[kBlockWeightBytes];
  alignas(64) float sums[kPanels * kBlocks.num_tokens_max * kLanes];
  const size_t num_tiles = (place.num_tokens + kTokensMax - 1) / kTokensMax;
  const TokenTiles tiles(place.num_tokens, num_tiles);
  const size_t num_passes = (task.num_groups + kBlockGroups - 1) / kBlockGroups;
  const NextPanels next(task, place, kPanels * num_passes * num_tiles);
  size_t step = 0;
  for (size_t panel = 0; panel < kPanels; ++panel) {
    const size_t index = place.panel_begin + panel;
    size_t group_begin = 0;
    for (size_t pass = 0; pass < num_passes; ++pass) {
      const size_t group_end = task.num_groups * (pass + 1) / num_passes;
      const size_t lines_per_group = next.lines_per_group(group_end - group_begin);
      Kernel::unpack(task.panels + index * task.panel_bytes, group_begin, group_end, unpacked);
      for (size_t i = 0; i < num_tiles; ++i, ++step) {
        const size_t begin = tiles.begin(i);
        const size_t count = tiles.count(i);
        const QuantizedTile tile = {
            .panel = index,
            .token = place.token_begin + begin,
            .group_begin = group_begin,
            .group_end = group_end,
            .sums = sums + (begin * kPanels + panel * count) * kLanes,
            .unpacked = unpacked,
            .ahead = next.share(step, lines_per_group),
        };
        if (panel + 1 == kPanels && pass + 1 == num_passes) {
          ask_for_outputs(task.output, {place.panel_begin, kPanels, tile.token, count});
        }
        run_quantized_tile<typename Kernel::OfUnpacked, 1, kTokensMax>(task, tile, count);
      }
      group_begin = group_end;
    }
  }
  finish_tiles<typename Kernel::Dots::Floats>(task, place, tiles, sums);
}

}  // namespace
}  // namespace millrace
