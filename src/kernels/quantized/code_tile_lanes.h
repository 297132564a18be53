// What a tile of linear_quantized adds up where weights are codes (Uint4Weights): a panel or two x
// a few tokens, both bytes of whose inputs (CodedInputs) are multiplied at once, so that a code is
// taken out of its byte once for all of them. Sums of a group's part are exact; floats are added
// group by group, ascending. See lanes.h for the rules of this file, quantized_tile_lanes.h for
// what `Dots` are.
#pragma once

#include "kernels/quantized/quantized_tile_lanes.h"

namespace millrace {
namespace {

// Of the inputs' upper bytes and of their lower ones.
template <class Dots, size_t kPanels, size_t kTokens>
using SumsOfBytes = typename Dots::Sums[kPanels][kTokens][2];

// Inputs 8 * step to + 4, or the four after those.
template <class Dots, bool kHigh, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void add_four_codes(
    const GroupPlace<kPanels, kTokens>& place,
    size_t step,
    SumsOfBytes<Dots, kPanels, kTokens>& sums
) {
  typename Dots::Weights weights[kPanels];
#pragma GCC unroll 2
  for (size_t panel = 0; panel < kPanels; ++panel) {
    const unsigned char* const codes = place.weights[panel] + step * 64;
    weights[panel] = kHigh ? Dots::high_bits(codes) : Dots::low_bits(codes);
  }
#pragma GCC unroll 4
  for (size_t token = 0; token < kTokens; ++token) {
    const unsigned char* const four = place.inputs.row(token) + step * 8 + (kHigh ? 4 : 0);
#pragma GCC unroll 2
    for (size_t byte = 0; byte < 2; ++byte) {
      const auto input = Dots::broadcast_inputs(four + byte * kGroupInputs);
#pragma GCC unroll 2
      for (size_t panel = 0; panel < kPanels; ++panel) {
        auto& sum = sums[panel][token][byte];
        sum = Dots::dot_codes(weights[panel], input, sum);
      }
    }
  }
}

// The sums of one part of a group, of `kSteps` times eight inputs from step `begin` on. The
// products of a single token wait for each other, so that every other four inputs have sums of
// their own.
template <class Dots, size_t kSteps, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void multiply_codes(
    const GroupPlace<kPanels, kTokens>& place,
    size_t begin,
    SumsOfBytes<Dots, kPanels, kTokens>& sums
) {
  constexpr bool kHasOthers = kPanels * kTokens == 1;
  SumsOfBytes<Dots, kPanels, kTokens> others;
#pragma GCC unroll 2
  for (size_t panel = 0; panel < kPanels; ++panel) {
#pragma GCC unroll 4
    for (size_t token = 0; token < kTokens; ++token) {
      for (auto& sum : sums[panel][token]) sum = Dots::broadcast_sum(0);
      for (auto& sum : others[panel][token]) sum = Dots::broadcast_sum(0);
    }
  }
#pragma GCC unroll 8
  for (size_t step = begin; step < begin + kSteps; ++step) {
    add_four_codes<Dots, false>(place, step, sums);
    if constexpr (kHasOthers) {
      add_four_codes<Dots, true>(place, step, others);
    } else {
      add_four_codes<Dots, true>(place, step, sums);
    }
  }
  if constexpr (kHasOthers) {
    for (size_t byte = 0; byte < 2; ++byte) {
      sums[0][0][byte] = Dots::add(sums[0][0][byte], others[0][0][byte]);
    }
  }
}

// Sixteen float16 of a group's part. `first`: those of the first panel.
template <class Floats>
[[gnu::always_inline]] inline Floats load_part(const unsigned char* first, size_t place) {
  return Floats::load(reinterpret_cast<const Float16*>(first + place));
}

// Adds a tile's groups to its sums.
template <class Dots, class Weights, size_t kPanels, size_t kTokens>
void add_code_groups(const QuantizedTask& task, const QuantizedTile& tile) {
  using Floats = typename Dots::Floats;
  constexpr size_t kParts = Weights::kParts;
  const unsigned char* const row = task.rows + tile.token * task.row_stride;
  const unsigned char* const panels = task.panels + tile.panel * task.panel_bytes;
  Floats totals[kPanels][kTokens];
  load_totals<Dots>(tile, totals);
  const size_t num_groups = tile.group_end - tile.group_begin;
  const size_t lines_per_group = (tile.ahead.num_lines + num_groups - 1) / num_groups;
  size_t next_line = 0;
  GroupPlace<kPanels, kTokens> place = {{}, {{}, task.row_stride}};
  place.inputs.begin_at(row + tile.group_begin * 2 * kGroupInputs);
  const unsigned char* inputs = row + task.num_groups * 2 * kGroupInputs;
  inputs += tile.group_begin * sizeof(CodedInputs);
  for (size_t group = tile.group_begin; group < tile.group_end; ++group) {
    place.inputs.forget_origins();
    place.weights_at(panels + Weights::kLayout.codes_offset(group), task.panel_bytes);
    if constexpr (kPanels == 1) {
      if (tile.hint_bytes != 0) {
        ask_for_bytes<Weights::kGroupBytes>(place.weights[0] + tile.hint_bytes);
      }
    }
    const unsigned char* const scales = panels + Weights::kLayout.scales_offset(group);
    const unsigned char* const bases = panels + Weights::kLayout.bases_offset(group);
    Floats values[kPanels][kTokens];
#pragma GCC unroll 2
    for (size_t part = 0; part < kParts; ++part) {
      constexpr size_t kSteps = kGroupSteps / kParts;
      SumsOfBytes<Dots, kPanels, kTokens> sums;
      multiply_codes<Dots, kSteps>(place, part * kSteps, sums);
#pragma GCC unroll 2
      for (size_t panel = 0; panel < kPanels; ++panel) {
        const size_t at = panel * task.panel_bytes + part * Weights::kPartBytes;
        const Floats scale = load_part<Floats>(scales, at);
#pragma GCC unroll 4
        for (size_t token = 0; token < kTokens; ++token) {
          Floats& value = values[panel][token];
          const auto& bytes = sums[panel][token];
          const Floats total = Dots::total(bytes[0], bytes[1]);
          value = part == 0 ? Floats::mul(total, scale) : Floats::fma(total, scale, value);
        }
      }
    }
    if constexpr (kPanels > 1) ask_for_weights(tile.ahead, next_line, lines_per_group);
#pragma GCC unroll 2
    for (size_t panel = 0; panel < kPanels; ++panel) {
      const unsigned char* of_token = inputs;
#pragma GCC unroll 4
      for (size_t token = 0; token < kTokens; ++token) {
        const auto& input = *reinterpret_cast<const CodedInputs*>(of_token);
        Floats value = values[panel][token];
#pragma GCC unroll 2
        for (size_t part = 0; part < kParts; ++part) {
          const size_t at = panel * task.panel_bytes + part * Weights::kPartBytes;
          const float sum = kParts == 1 ? input.sum : input.half_sums[part];
          value = Floats::fma(load_part<Floats>(bases, at), Floats::broadcast(sum), value);
        }
        Floats& total = totals[panel][token];
        total = Floats::fma(value, Floats::broadcast(input.scale), total);
        of_token += place.inputs.stride;
        forget_origin(of_token);
      }
    }
    place.inputs.advance(2 * kGroupInputs);
    inputs += sizeof(CodedInputs);
  }
  store_totals<Dots, Weights, GroupScales>(task, tile, totals);
}

}  // namespace
}  // namespace millrace
