// A tile of a panel and few tokens whose inputs have two terms, which are multiplied at once: each
// code becomes a weight once, where quantized_tile_lanes.h makes one for each term. The same sums
// in the same order. See lanes.h for the rules of this file, quantized_tile_lanes.h for what `Dots`
// are.
#pragma once

#include "kernels/quantized/quantized_tile_lanes.h"

namespace millrace {
namespace {

template <class Dots, size_t kTokens>
using SumsOfTerms = typename Dots::Sums[kTokens][2];

// Adds the products of inputs 8 * step to + 4, or of the four after those.
template <class Dots, class Weights, bool kHigh, size_t kTokens>
[[gnu::always_inline]] inline void add_four_inputs_twice(
    const GroupPlace<1, kTokens>& place,
    size_t step,
    const Decoder<Dots, Weights>& decoder,
    SumsOfTerms<Dots, kTokens>& sums
) {
  const auto weights = read_weights<Dots, kHigh>(Weights{}, place.weights[0], step, decoder);
#pragma GCC unroll 4
  for (size_t token = 0; token < kTokens; ++token) {
    const unsigned char* four = place.inputs.row(token) + step * 8 + (kHigh ? 4 : 0);
#pragma GCC unroll 2
    for (size_t term = 0; term < 2; ++term) {
      const auto input = Dots::broadcast_inputs(four + term * kGroupInputs);
      sums[token][term] = Dots::dot(weights, input, sums[token][term]);
    }
  }
}

// Of one group. A single token's products wait for each other, so that every other four inputs have
// sums of their own.
template <class Dots, class Weights, size_t kTokens>
[[gnu::always_inline]] inline void multiply_group_twice(
    const GroupPlace<1, kTokens>& place,
    const Decoder<Dots, Weights>& decoder,
    SumsOfTerms<Dots, kTokens>& sums
) {
  SumsOfTerms<Dots, kTokens> others;
  if constexpr (kTokens == 1) {
    for (auto& other : others[0]) other = Dots::broadcast_sum(0);
  }
#pragma GCC unroll 8
  for (size_t step = 0; step < kGroupSteps; ++step) {
    add_four_inputs_twice<Dots, Weights, false>(place, step, decoder, sums);
    if constexpr (kTokens == 1) {
      add_four_inputs_twice<Dots, Weights, true>(place, step, decoder, others);
    } else {
      add_four_inputs_twice<Dots, Weights, true>(place, step, decoder, sums);
    }
  }
  if constexpr (kTokens == 1) {
    for (size_t term = 0; term < 2; ++term) {
      sums[0][term] = Dots::add(sums[0][term], others[0][term]);
    }
  }
}

// All groups of one panel into tile.sums. REQUIRES: groups of inputs have scales of their own.
template <class Dots, class Weights, size_t kTokens>
void add_groups_of_two_terms(const QuantizedTask& task, const QuantizedTile& tile) {
  using Floats = typename Dots::Floats;
  const unsigned char* const row = task.rows + tile.token * task.row_stride;
  const unsigned char* const panel = task.panels + tile.panel * task.panel_bytes;
  const size_t num_parts = task.num_groups * 2;
  Floats totals[1][kTokens];
#pragma GCC unroll 4
  for (Floats& total : totals[0]) total = Floats::zero();
  GroupPlace<1, kTokens> place = {{}, {{}, task.row_stride}};
  place.inputs.begin_at(row);
  const unsigned char* starts = row + num_parts * kGroupInputs;
  for (size_t group = 0; group < task.num_groups; ++group, starts += 2 * sizeof(int)) {
    place.inputs.forget_origins();
    place.weights[0] = panel + Weights::kLayout.codes_offset(group);
    const auto decoder = decoder_of<Dots>(Weights{}, panel, group);
    SumsOfTerms<Dots, kTokens> sums;
#pragma GCC unroll 4
    for (size_t token = 0; token < kTokens; ++token) {
      const auto* const start = reinterpret_cast<const int*>(starts + token * task.row_stride);
      for (size_t term = 0; term < 2; ++term) sums[token][term] = Dots::broadcast_sum(start[term]);
    }
    if (tile.hint_bytes != 0) {
      ask_for_bytes<Weights::kGroupBytes>(place.weights[0] + tile.hint_bytes);
    }
    multiply_group_twice<Dots, Weights, kTokens>(place, decoder, sums);
    const Floats group_scale =
        load_group_scales<Dots>(Weights{}, panel + Weights::kLayout.scales_offset(group));
    const Floats shift = Floats::mul(group_scale, Floats::broadcast(kRoundingShift));
    const unsigned char* const scales = starts + num_parts * sizeof(int);
#pragma GCC unroll 4
    for (size_t token = 0; token < kTokens; ++token) {
      const auto* const scale = reinterpret_cast<const float*>(scales + token * task.row_stride);
      for (size_t term = 0; term < 2; ++term) {
        const Floats sum = Dots::as_floats(sums[token][term]);
        const Floats product = Floats::fms(sum, group_scale, shift);
        totals[0][token] = Floats::fma(product, Floats::broadcast(scale[term]), totals[0][token]);
      }
    }
    place.inputs.advance(2 * kGroupInputs);
  }
  store_totals<Dots, Weights, GroupScales>(task, tile, totals);
}

// For 1 .. kTokensMax tokens.
template <class Dots, class Weights, size_t kTokensMax, size_t kTokens = 1>
void run_two_terms_tile(const QuantizedTask& task, const QuantizedTile& tile, size_t num_tokens) {
  if constexpr (kTokens <= kTokensMax) {
    if (num_tokens == kTokens) {
      add_groups_of_two_terms<Dots, Weights, kTokens>(task, tile);
    } else {
      run_two_terms_tile<Dots, Weights, kTokensMax, kTokens + 1>(task, tile, num_tokens);
    }
  }
}

}  // namespace
}  // namespace millrace
