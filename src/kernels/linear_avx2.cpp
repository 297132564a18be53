#include "kernels/lanes_avx2.h"
#include "kernels/linear_bfloat16_lanes.h"
#include "kernels/linear_kernel.h"
#include "kernels/linear_lanes.h"
#include "kernels/packed_bfloat16_avx2.h"
#include "kernels/whole_bfloat16_avx2.h"

namespace millrace {
namespace {

// 16 registers, two to a panel: 2 x 3 sums take 12, a panel of weights 2 and an input 1.
struct TileShape {
  static constexpr size_t kTokensMax = 3;
  static constexpr size_t tile_tokens_for(size_t) { return kTokensMax; }
  static constexpr size_t panels_for(size_t num_tokens) { return num_tokens == 1 ? 4 : 2; }
};

// The same, or 1 x 6 sums, which take fewer loads of weights.
template <class PanelRows>
struct UnpackedShape {
  using Rows = PanelRows;
  static constexpr size_t kPanels = 2;
  static constexpr size_t kUnpackedBytes = 16 << 10;
  static constexpr size_t kTokensMax = 6;
  static constexpr size_t panels_for(size_t num_tokens) { return num_tokens <= 3 ? 2 : 1; }
};

constexpr size_t kFewPanels = 2;  // gate and up

// How few tokens, at most kTokensMax, multiply weights where they lie, in tiles of kTileTokens.
// kUnpackedRows: what panels are for more.
//
// Packed: in the registers in which they were unpacked, which happens once.
struct FewOfPacked {
  using UnpackedRows = PackedRows;
  static constexpr size_t kTokensMax = 4;
  static constexpr size_t kTileTokens = 4;

  template <size_t kPanels, size_t kTokens>
  static void multiply(
      const LinearTask& task, const uint8_t* panels, size_t /*token*/, float* sums
  ) {
    multiply_panels<kPanels, kTokens>(task, panels, sums);
  }
};
// Whole: the first tile reads them from memory, the others from a cache.
struct FewOfWhole {
  using UnpackedRows = WholeRows;
  static constexpr size_t kTokensMax = 24;
  static constexpr size_t kTileTokens = 6;

  template <size_t kPanels, size_t kTokens>
  static void multiply(const LinearTask& task, const uint8_t* panels, size_t token, float* sums) {
    const auto* const x = static_cast<const float*>(task.x) + token * task.x_stride;
    const size_t hint_bytes = token == 0 ? task.hint_bytes : 0;
    multiply_whole_panels<kPanels, kTokens>(task, panels, x, hint_bytes, sums);
  }
};

// Tokens [begin, begin + num_tokens) of those in `place`, whose sums are [panels][tokens][16]. A
// single token takes both panels side by side, because each multiply-add waits for the one before.
template <class Few, size_t kTokens = 1>
void multiply_few(
    const LinearTask& task, const TilePlace& place, size_t begin, size_t num_tokens, float* sums
) {
  if constexpr (kTokens <= Few::kTileTokens) {
    if (num_tokens != kTokens) {
      return multiply_few<Few, kTokens + 1>(task, place, begin, num_tokens, sums);
    }
    const auto* const panels = static_cast<const uint8_t*>(task.weights);
    const uint8_t* panel = panels + place.panel_begin * task.panel_size;
    sums += begin * kLanes;
    if (place.num_tokens == 1 && place.num_panels == kFewPanels) {
      return Few::template multiply<kFewPanels, 1>(task, panel, begin, sums);
    }
    for (size_t i = 0; i < place.num_panels; ++i) {
      Few::template multiply<1, kTokens>(task, panel, begin, sums);
      panel += task.panel_size;
      sums += place.num_tokens * kLanes;
    }
  }
}

template <class Few>
void linear_few(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  const size_t num_tokens = task.num_tokens;
  const size_t num_tiles = (num_tokens + Few::kTileTokens - 1) / Few::kTileTokens;
  for (size_t panel = panel_begin; panel < panel_end; panel += kFewPanels) {
    const size_t left = panel_end - panel;
    const TilePlace place = {panel, left < kFewPanels ? left : kFewPanels, 0, num_tokens};
    alignas(64) float sums[kFewPanels * Few::kTokensMax * kLanes];
    for (size_t tile = 0; tile < num_tiles; ++tile) {
      const size_t begin = num_tokens * tile / num_tiles;
      const size_t end = num_tokens * (tile + 1) / num_tiles;
      multiply_few<Few>(task, place, begin, end - begin, sums);
    }
    if (task.exceptions != nullptr) add_exceptions(task, place, sums, InputInRow<float>{task});
    finish_tile<Avx2Lanes>(task, place, sums);
  }
}

template <class Few>
void linear_bfloat16(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  if (task.num_tokens <= Few::kTokensMax) {
    linear_few<Few>(task, panel_begin, panel_end);
  } else {
    using Shape = UnpackedShape<typename Few::UnpackedRows>;
    linear_unpacked<Avx2Lanes, Shape>(task, panel_begin, panel_end);
  }
}

}  // namespace

template <class Weight>
void linear_avx2(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  linear_lanes<Avx2Lanes, TileShape, EachInput<Avx2Lanes, Weight>>(task, panel_begin, panel_end);
}
template <>
void linear_avx2<BFloat16>(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  if (task.bfloat16_panels == BFloat16Panels::kWhole) {
    linear_bfloat16<FewOfWhole>(task, panel_begin, panel_end);
  } else {
    linear_bfloat16<FewOfPacked>(task, panel_begin, panel_end);
  }
}

template void linear_avx2<float>(const LinearTask&, size_t, size_t);
template void linear_avx2<Float16>(const LinearTask&, size_t, size_t);

}  // namespace millrace
