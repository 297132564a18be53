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

// Of whole bfloat16 panels gate and up come one after the other, 1 x 4 sums: of 6 tokens a tile
// takes longer for each (docs/decisions/0036).
struct WholeShape {
  static constexpr size_t kTokensMax = 4;
  static constexpr size_t tile_tokens_for(size_t) { return kTokensMax; }
  static constexpr size_t panels_for(size_t) { return 2; }
};

// As TileShape, or 1 x 6 sums, which take fewer loads of weights.
struct UnpackedShape {
  static constexpr size_t kPanels = 2;
  static constexpr size_t kUnpackedBytes = 16 << 10;
  static constexpr size_t kTokensMax = 6;
  static constexpr size_t panels_for(size_t num_tokens) { return num_tokens <= 3 ? 2 : 1; }
};

// Up to so many tokens multiply weights in the registers in which they were unpacked.
constexpr size_t kFewTokens = 4;
constexpr size_t kFewPanels = 2;  // gate and up

// `sums`: [panels][tokens][16]. A single token takes both panels side by side, because each
// multiply-add waits for the one before.
template <size_t kTokens = 1>
void multiply_few(const LinearTask& task, const TilePlace& place, float* sums) {
  if constexpr (kTokens <= kFewTokens) {
    if (place.num_tokens != kTokens) return multiply_few<kTokens + 1>(task, place, sums);
    const size_t panel_bytes = task.panel_size;
    const auto* panel = static_cast<const uint8_t*>(task.weights) + place.panel_begin * panel_bytes;
    constexpr size_t kPanels = kTokens == 1 ? kFewPanels : 1;
    if (place.num_panels < kPanels) return multiply_panels<1, kTokens>(task, panel, sums);
    for (size_t i = 0; i < place.num_panels; i += kPanels) {
      multiply_panels<kPanels, kTokens>(task, panel, sums);
      panel += kPanels * panel_bytes;
      sums += kPanels * kTokens * kLanes;
    }
  }
}

void linear_few(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  for (size_t panel = panel_begin; panel < panel_end; panel += kFewPanels) {
    const size_t left = panel_end - panel;
    const TilePlace place = {panel, left < kFewPanels ? left : kFewPanels, 0, task.num_tokens};
    alignas(64) float sums[kFewPanels * kFewTokens * kLanes];
    multiply_few(task, place, sums);
    if (task.exceptions != nullptr) add_exceptions(task, place, sums, InputInRow<float>{task});
    finish_tile<Avx2Lanes>(task, place, sums);
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
    linear_lanes<Avx2Lanes, WholeShape, WholePairs>(task, panel_begin, panel_end);
  } else if (task.num_tokens <= kFewTokens) {
    linear_few(task, panel_begin, panel_end);
  } else {
    linear_unpacked<Avx2Lanes, UnpackedShape, UnpackedRows>(task, panel_begin, panel_end);
  }
}

template void linear_avx2<float>(const LinearTask&, size_t, size_t);
template void linear_avx2<Float16>(const LinearTask&, size_t, size_t);

}  // namespace millrace
