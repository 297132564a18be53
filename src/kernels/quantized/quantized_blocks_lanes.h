// How linear_quantized passes a panel or two by a block of tokens, tile by tile
// (quantized_tile_lanes.h), on sixteen lanes. See lanes.h for the rules of this file. A type
// `Shape` says how many tokens a tile has, tokens_for(panels), for one panel and for two.
#pragma once

#include <type_traits>

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
    .num_bytes_max = 528 << 10,  // 96 tokens of 4864 inputs in a byte each
    .num_tokens_max = 256,
    .num_tile_tokens = 1};
// Processors that want hints so far ahead (Zen 5) want those of many tokens in the first cache too,
// not in the second, and five to eight tokens by two panels, not by one (docs/decisions/0021).
constexpr size_t kFarHintBytes = 8 << 10;
// Of two panels, the part that stays in the first cache while all tokens of a block pass by.
constexpr size_t kBlockWeightBytes = 16384;
// Up to so many tokens may take one panel after another: one stream of reads, which is what the
// processor fetches ahead best (32 GB/s instead of 24 with one token and a thread for each core of
// Zen 4, docs/benchmarks/cpu_changes.md). More of them share the loads of two panels, and ask for
// the next two meanwhile: they compute for so long that the processor forgets what it fetches
// ahead.
constexpr size_t kFewTokens = 4;

// What is multiplied and how. Weights is what panels keep, Source the same or as they were
// unpacked.
template <class Dots_, class Shape_, class Weights_, class Scales_, class Source_ = Weights_>
struct Kernel {
  using Dots = Dots_;
  using Shape = Shape_;
  using Weights = Weights_;
  using Scales = Scales_;
  using Source = Source_;
  using OfUnpacked = Kernel<Dots, Shape, Weights, Scales, Unpacked<Weights>>;

  // Whether tiles of two panels multiply weights that were unpacked for them, where there are more
  // than two tiles: looking up the weights of int4 takes places of products.
  static constexpr bool kUnpacksPairs = !Dots::kUnpacks && std::is_same_v<Weights, Int4Weights>;
  using OfManyTiles = std::conditional_t<kUnpacksPairs, OfUnpacked, Kernel>;

  // Of a tile at most. Tokens whose both bytes are multiplied at once take two sums each.
  static constexpr size_t tile_tokens(size_t num_panels) {
    if (!kAreCodes<Weights> || Dots::kInputBytes == 2) return Shape::tokens_for(num_panels);
    return num_panels == 1 ? kFewTokens : Shape::tokens_for(num_panels) / 2;
  }

  // Of run_few(): of one of its tiles, and at most. Weights are unpacked in a few operations: that
  // a block unpacks them once saves less than it waits for memory meanwhile, unless it is of many
  // tokens (docs/benchmarks/cpu_changes.md, "Few tokens of words").
  static constexpr size_t few_tile_tokens() { return Dots::kUnpacks ? kFewTokens : tile_tokens(1); }
  static constexpr size_t few_tokens_max() {
    return Dots::kUnpacks ? 4 * kFewTokens : few_tile_tokens();
  }

  // A tile of one size.
  template <size_t kPanels, size_t kTokens>
  static void add_tile(const QuantizedTask& task, const QuantizedTile& tile) {
    if constexpr (kAreCodes<Weights>) {
      add_code_groups<Dots, Weights, Source, kPanels, kTokens>(task, tile);
    } else {
      add_groups<Dots, Weights, Source, Scales, kPanels, kTokens>(task, tile);
    }
  }

  static void unpack(const unsigned char* panel, size_t begin, size_t end, unsigned char* out) {
    if constexpr (kAreCodes<Weights>) {
      unpack_code_groups<Dots, Weights>(panel, begin, end, out);
    } else {
      unpack_groups<Dots, Weights>(panel, begin, end, out);
    }
  }
};

// For 1 .. tile_tokens() tokens.
template <class Kernel, size_t kPanels, size_t kTokens = 1>
void run_quantized_tile(const QuantizedTask& task, const QuantizedTile& tile, size_t num_tokens) {
  if constexpr (kTokens <= Kernel::tile_tokens(kPanels)) {
    if (num_tokens != kTokens) {
      return run_quantized_tile<Kernel, kPanels, kTokens + 1>(task, tile, num_tokens);
    }
    Kernel::template add_tile<kPanels, kTokens>(task, tile);
  }
}

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
      run_quantized_tile<Kernel, 1>(task, tile, count);
    }
  }
  finish_tiles<typename Kernel::Dots::Floats>(task, place, tiles, sums);
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
      .is_soon = task.output.hint_bytes >= kFarHintBytes,
  };
}

// kPanels panels for a block of tokens, at once.
template <class Kernel, size_t kPanels>
void run_block(const QuantizedTask& task, const TilePlace& place) {
  alignas(64) float sums[kPanels * kBlocks.num_tokens_max * kLanes];
  constexpr size_t kTokensMax = Kernel::tile_tokens(kPanels);
  constexpr size_t kGroupBytes = Kernel::kUnpacksPairs ? kUnpackedGroupBytes<typename Kernel::Dots>
                                                       : Kernel::Weights::kGroupBytes;
  constexpr size_t kBlockGroups = kBlockWeightBytes / (kPanels * kGroupBytes);
  alignas(64) unsigned char unpacked[Kernel::kUnpacksPairs ? kBlockWeightBytes : 1];
  const size_t num_tiles = (place.num_tokens + kTokensMax - 1) / kTokensMax;
  const TokenTiles tiles(place.num_tokens, num_tiles);
  // Two tiles are soon done: the second finds all groups in the second cache.
  const bool is_short = num_tiles <= 2;
  const size_t num_passes = is_short ? 1 : (task.num_groups + kBlockGroups - 1) / kBlockGroups;
  const auto pass_begin = [&](size_t pass) { return task.num_groups * pass / num_passes; };
  for (size_t pass = 0; pass < num_passes; ++pass) {
    const bool is_last = pass + 1 == num_passes;
    if (Kernel::kUnpacksPairs && !is_short) {
      for (size_t panel = 0; panel < kPanels; ++panel) {
        Kernel::unpack(
            task.panels + (place.panel_begin + panel) * task.panel_bytes,
            pass_begin(pass),
            pass_begin(pass + 1),
            unpacked + panel * (kBlockWeightBytes / kPanels)
        );
      }
    }
    for (size_t i = 0; i < num_tiles; ++i) {
      const size_t begin = tiles.begin(i);
      const size_t count = tiles.count(i);
      const size_t step = pass * num_tiles + i;
      const QuantizedTile tile = {
          .panel = place.panel_begin,
          .token = place.token_begin + begin,
          .group_begin = pass_begin(pass),
          .group_end = pass_begin(pass + 1),
          .sums = sums + begin * kPanels * kLanes,
          .unpacked = unpacked,
          .unpacked_stride = kBlockWeightBytes / kPanels,
          .ahead = share_of_next<kPanels>(task, place, step, num_passes * num_tiles),
      };
      if (is_short) {
        run_quantized_tile<Kernel, kPanels>(task, tile, count);
      } else {
        run_quantized_tile<typename Kernel::OfManyTiles, kPanels>(task, tile, count);
      }
      if (is_last) {
        const TilePlace done = {place.panel_begin, kPanels, tile.token, count};
        finish_tile<typename Kernel::Dots::Floats>(task.output, done, tile.sums);
      }
    }
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
  const auto pass_begin = [&](size_t pass) { return task.num_groups * pass / num_passes; };
  const size_t num_steps = kPanels * num_passes * num_tiles;
  size_t step = 0;
  for (size_t panel = 0; panel < kPanels; ++panel) {
    for (size_t pass = 0; pass < num_passes; ++pass) {
      const size_t index = place.panel_begin + panel;
      const size_t group_begin = pass_begin(pass);
      const size_t group_end = pass_begin(pass + 1);
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
            .ahead = share_of_next<kPanels>(task, place, step, num_steps),
        };
        run_quantized_tile<typename Kernel::OfUnpacked, 1>(task, tile, count);
      }
    }
  }
  finish_tiles<typename Kernel::Dots::Floats>(task, place, tiles, sums);
}

}  // namespace
}  // namespace millrace
