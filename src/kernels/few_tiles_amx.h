// One or two tiles of tokens by the panels of a matrix: reading the weights takes the time. See
// lanes.h for the rules of this file.
#pragma once

#include <cstddef>

#include "kernels/amx_tiles.h"
#include "kernels/block_tokens_amx.h"
#include "kernels/linear_kernel.h"

namespace millrace {
namespace {

// The registers of FewTiles; 0 .. 3 are the sums, 4 and 5 inputs.
constexpr int kInputTile = 4;
constexpr int kWeightTile = 6;

// kTiles tiles of up to 16 tokens, kPanels panels at a time. Each step is multiplied while the next
// is unpacked, so that reading goes on.
template <class Weights, size_t kTiles, size_t kPanels>
class FewTiles {
  using Products = typename Weights::Products;

 public:
  FewTiles(const LinearTask& task, const BlockTokens<Weights>& tokens)
      : task_(task), tokens_(tokens) {}

  // Panels [panel, panel_end), a multiple of kPanels.
  void run(size_t panel, size_t panel_end) {
    if (panel == panel_end) return;
    unpack(panel, 0);
    for (; panel < panel_end; panel += kPanels) {
      each_sum<kTiles, kPanels>([]<int kSum>(size_t, size_t) { clear_tile<kSum>(); });
      multiply_panels<0>(panel, panel_end);
      each_sum<kTiles, kPanels>([&]<int kSum>(size_t i, size_t tile) {
        store_tile<kSum>(sums_of(tile) + i * tokens_.num_tokens_at(tile) * kLanes, kTileRowBytes);
      });
      for (size_t tile = 0; tile < kTiles; ++tile) {
        tokens_.finish(tile * kTileRows, panel, kPanels, sums_of(tile * kTileRows));
      }
    }
  }

 private:
  // Panels from `panel` on, some of them at once, into the sums from kFirst on. Their first step is
  // unpacked already, and so is in the end that of the panels after them.
  template <size_t kFirst>
  void multiply_panels(size_t panel, size_t panel_end) {
    const size_t num_steps = tokens_.num_steps();
    const size_t next = panel + kAtOnce;
    for (size_t step = 0; step + 1 < num_steps; ++step) {
      unpack(panel, step + 1);
      multiply<kFirst>(step);
    }
    if (next < panel_end) unpack(next, 0);
    multiply<kFirst>(num_steps - 1);
    if constexpr (kFirst + kAtOnce < kPanels) multiply_panels<kFirst + kAtOnce>(next, panel_end);
  }
  // The panels side by side, as the processor goes on fetching ahead where a few streams go on.
  void unpack(size_t panel_begin, size_t step) {
    constexpr size_t kStepBlocks = Products::kStepInputs / Weights::kBlockInputs;
    const size_t slot = num_unpacked_++ % kSlots;
    for (size_t i = 0; i < kStepBlocks; ++i) {
#pragma GCC unroll 4
      for (size_t panel = 0; panel < kAtOnce; ++panel) {
        auto* out = weights_[panel][slot] + i * Weights::kBlockInputs * kLanes;
        Weights::unpack(task_, panel_begin + panel, step * kStepBlocks + i, kAtOnce, out);
      }
    }
  }
  template <size_t kFirst>
  void multiply(size_t step) {
    load_tile<kInputTile>(tokens_.inputs_at(0, step), kTileRowBytes);
    if constexpr (kTiles == 2) {
      load_tile<kInputTile + 1>(tokens_.inputs_at(kTileRows, step), kTileRowBytes);
    }
    add_products<kFirst, 0>(num_multiplied_++ % kSlots);
  }
  template <size_t kFirst, size_t kPanel>
  [[gnu::always_inline]] void add_products(size_t slot) {
    load_tile<kWeightTile>(weights_[kPanel][slot], kTileRowBytes);
    constexpr int kSum = static_cast<int>((kFirst + kPanel) * kTiles);
    Products::template add<kSum, kInputTile, kWeightTile>();
    if constexpr (kTiles == 2) {
      Products::template add<kSum + 1, kInputTile + 1, kWeightTile>();
    }
    if constexpr (kPanel + 1 < kAtOnce) add_products<kFirst, kPanel + 1>(slot);
  }
  // Of the tile with that token: [kPanels][tokens][16].
  float* sums_of(size_t token) {
    return sums_ + token * kPanels * kLanes;
  }

  static constexpr size_t kAtOnce =
      kPanels < Weights::kPanelsAtOnce ? kPanels : Weights::kPanelsAtOnce;
  // Of steps that are unpacked; one too few would do.
  static constexpr size_t kSlots = 4;

  const LinearTask& task_;
  const BlockTokens<Weights>& tokens_;
  size_t num_unpacked_ = 0;
  size_t num_multiplied_ = 0;
  alignas(64) Tile<Products> weights_[kAtOnce][kSlots];
  alignas(64) float sums_[kTiles * kPanels * kTileRows * kLanes];
};

}  // namespace
}  // namespace millrace
