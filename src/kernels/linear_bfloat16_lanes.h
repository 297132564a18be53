// linear on sixteen lanes for bfloat16 matrices, whose panels are unpacked first. See lanes.h for
// the rules of this file.
#pragma once

#include "kernels/linear_lanes.h"
#include "kernels/packed_bfloat16_layout.h"

namespace millrace {
namespace {

// Two for each pair of inputs, the odd one first, as vdpbf16ps adds them; of a panel that is
// unpacked.
template <class Lanes>
struct PairsOfInputs {
  using Weight = BFloat16;
  using Input = float;  // rounded to bfloat16
  static constexpr size_t kInputs = 2;
  static constexpr size_t kParts = 2;

  template <size_t kPart>
  [[gnu::always_inline]] static Lanes weights(const BFloat16* p) {
    return kPart == 0 ? Lanes::widen_odd(p) : Lanes::widen_even(p);
  }
  template <size_t kPart>
  [[gnu::always_inline]] static Lanes inputs(const float* x) {
    return Lanes::broadcast(x[1 - kPart]);
  }
  [[gnu::always_inline]] static Lanes add(Lanes sums, Lanes weights, Lanes inputs) {
    return Lanes::fma(weights, inputs, sums);
  }
  template <size_t kPanels, size_t kTokens>
  static void sum_tile(const LinearTask& task, size_t panel, size_t token, float* out) {
    sum_steps<Lanes, PairsOfInputs, kPanels, kTokens>(task, panel, token, out);
  }
};

// linear_lanes() for a bfloat16 matrix, a few panels of which are unpacked for all tokens.
// `unpack(panel, num_blocks, out)` does so.
template <class Lanes, class Shape, class Format, class Unpack>
void linear_unpacked(
    const LinearTask& task, size_t panel_begin, size_t panel_end, const Unpack& unpack
) {
  const size_t num_blocks = (task.num_inputs + kPackedBlockColumns - 1) / kPackedBlockColumns;
  const auto* packed = static_cast<const uint8_t*>(task.weights);
  LinearTask plain = task;
  auto* unpacked = static_cast<BFloat16*>(task.scratch);
  plain.weights = unpacked;
  plain.panel_size = num_blocks * kPackedBlockColumns * kLanes;
  for (size_t panel = panel_begin; panel < panel_end; panel += kUnpackedPanels) {
    const size_t rest = panel_end - panel;
    const size_t count = rest < kUnpackedPanels ? rest : kUnpackedPanels;
    for (size_t i = 0; i < count; ++i) {
      unpack(packed + (panel + i) * task.panel_size, num_blocks, unpacked + i * plain.panel_size);
    }
    plain.first_panel = panel;
    linear_lanes<Lanes, Shape, Format>(plain, panel, panel + count);
  }
}

}  // namespace
}  // namespace millrace
