// What linear_quantized multiplies and how, and a tile of any number of tokens, on sixteen lanes.
// See lanes.h for the rules of this file. A type `Shape` says how many tokens a tile has,
// tokens_for(panels), for one panel and for two, and may have kTokensOfOneTile (one_tile_tokens()).
#pragma once

#include <type_traits>

#include "kernels/lanes.h"
#include "kernels/quantized/code_tile_lanes.h"
#include "kernels/quantized/linear_quantized_kernel.h"
#include "kernels/quantized/quantized_tile_lanes.h"

namespace millrace {
namespace {

// Up to so many tokens may take one panel after another: one stream of reads, which is what the
// processor fetches ahead best (32 GB/s instead of 24 with one token and a thread for each core of
// Zen 4, docs/benchmarks/cpu_changes.md). More of them share the loads of two panels, and ask for
// the next two meanwhile: they compute for so long that the processor forgets what it fetches
// ahead.
constexpr size_t kFewTokens = 4;

// Weights is what panels keep, Source the same or as they were unpacked.
template <class Dots_, class Shape_, class Weights_, class Scales_, class Source_ = Weights_>
struct Kernel {
  using Dots = Dots_;
  using Shape = Shape_;
  using Weights = Weights_;
  using Scales = Scales_;
  using Source = Source_;
  using OfUnpacked = Kernel<Dots, Shape, Weights, Scales, Unpacked<Weights>>;

  // Whether tiles of two panels may multiply weights that were unpacked for them, where there are
  // more than two tiles (QuantizedTask::unpacks_pairs).
  static constexpr bool kUnpacksPairs = !Dots::kUnpacks && kAreOfSixBits<Weights>;
  using OfManyTiles = std::conditional_t<kUnpacksPairs, OfUnpacked, Kernel>;

  // Of a tile at most. Tokens whose both bytes are multiplied at once take two sums each.
  static constexpr size_t tile_tokens(size_t num_panels) {
    if (!kAreCodes<Weights> || Dots::kInputBytes == 2) return Shape::tokens_for(num_panels);
    return num_panels == 1 ? kFewTokens : Shape::tokens_for(num_panels) / 2;
  }

  // Up to so many are one tile of a block, those of whole rows even where many tokens have smaller
  // ones.
  static constexpr size_t one_tile_tokens(size_t num_panels) {
    if constexpr (Scales::kAreOfRows && requires { Shape::kTokensOfOneTile; }) {
      return Shape::kTokensOfOneTile;
    } else {
      return tile_tokens(num_panels);
    }
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

// For 1 .. kTokensMax tokens.
template <class Kernel, size_t kPanels, size_t kTokensMax, size_t kTokens = 1>
void run_quantized_tile(const QuantizedTask& task, const QuantizedTile& tile, size_t num_tokens) {
  if constexpr (kTokens <= kTokensMax) {
    if (num_tokens != kTokens) {
      return run_quantized_tile<Kernel, kPanels, kTokensMax, kTokens + 1>(task, tile, num_tokens);
    }
    Kernel::template add_tile<kPanels, kTokens>(task, tile);
  }
}

}  // namespace
}  // namespace millrace
