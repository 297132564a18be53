// The sums of a group's products, for a panel or two x a few tokens: integers, exact, so that their
// order is free. See lanes.h for the rules of this file, group_weights_lanes.h for what `Dots` are.
#pragma once

#include "kernels/quantized/group_weights_lanes.h"
#include "kernels/quantized/tile_memory_lanes.h"

namespace millrace {
namespace {

// Inputs 8 * step to + 4, or the four after those.
template <class Dots, class Source, bool kHigh, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void add_four_inputs(
    const GroupPlace<Dots, kPanels, kTokens>& place,
    size_t step,
    typename Dots::Table table,
    typename Dots::Sums (&sums)[kPanels][kTokens]
) {
  typename Dots::Weights weights[kPanels];
#pragma GCC unroll 8
  for (size_t panel = 0; panel < kPanels; ++panel) {
    weights[panel] = read_weights<Dots, kHigh>(Source{}, place.weights[panel], step, table);
  }
#pragma GCC unroll 12
  for (size_t token = 0; token < kTokens; ++token) {
    const unsigned char* const four =
        place.inputs.row(token) + (step * 8 + (kHigh ? 4 : 0)) * Dots::kInputBytes;
    add_products<Dots>(weights, four, [&](size_t panel) { return &sums[panel][token]; });
  }
}

// Inputs 8 * step to + 8, where their products are added at once.
template <class Dots, class Source, size_t kTokens>
[[gnu::always_inline]] inline void add_eight_inputs(
    const GroupPlace<Dots, 1, kTokens>& place,
    size_t step,
    typename Dots::Table table,
    typename Dots::Sums (&sums)[1][kTokens]
) {
  const unsigned char* const group = place.weights[0];
  const auto low = read_weights<Dots, false>(Source{}, group, step, table);
  const auto high = read_weights<Dots, true>(Source{}, group, step, table);
#pragma GCC unroll 12
  for (size_t token = 0; token < kTokens; ++token) {
    const unsigned char* const eight = place.inputs.row(token) + step * 8 * Dots::kInputBytes;
    const auto first = Dots::broadcast_inputs(eight);
    const auto second = Dots::broadcast_inputs(eight + 4 * Dots::kInputBytes);
    sums[0][token] = Dots::dot(low, first, high, second, sums[0][token]);
  }
}

// The products of inputs 16 * quarter + 4 * four to + 4.
template <class Dots, class Source, size_t kFour, size_t kTokens>
[[gnu::always_inline]] inline void add_four_to_words(
    const GroupPlace<Dots, 1, kTokens>& place,
    size_t quarter,
    typename Dots::Table table,
    typename Dots::Words (&words)[kTokens]
) {
  constexpr bool kHigh = kFour % 2 == 1;
  const size_t step = 2 * quarter + kFour / 2;
  const auto weights = read_weights<Dots, kHigh>(Source{}, place.weights[0], step, table);
#pragma GCC unroll 12
  for (size_t token = 0; token < kTokens; ++token) {
    const auto inputs = Dots::broadcast_inputs(place.inputs.row(token) + quarter * 16 + kFour * 4);
    words[token] = Dots::add_to_words(weights, inputs, words[token]);
  }
}

// A quarter of a group, where the products of sixteen inputs are added at once.
template <class Dots, class Source, size_t kTokens>
[[gnu::always_inline]] inline void add_sixteen_inputs(
    const GroupPlace<Dots, 1, kTokens>& place,
    size_t quarter,
    typename Dots::Table table,
    typename Dots::Sums (&sums)[1][kTokens]
) {
  typename Dots::Words words[kTokens];
#pragma GCC unroll 12
  for (size_t token = 0; token < kTokens; ++token) {
    words[token] = Dots::broadcast_words(place.inputs.row(token) + kGroupInputs + quarter * 4);
  }
  add_four_to_words<Dots, Source, 0>(place, quarter, table, words);
  add_four_to_words<Dots, Source, 1>(place, quarter, table, words);
  add_four_to_words<Dots, Source, 2>(place, quarter, table, words);
  add_four_to_words<Dots, Source, 3>(place, quarter, table, words);
#pragma GCC unroll 12
  for (size_t token = 0; token < kTokens; ++token) {
    sums[0][token] = Dots::add_words(words[token], sums[0][token]);
  }
}

// What a tile asks for while it adds a group's products, of which `first_step` of `num_steps` (of
// both bytes) is the next. Not a function to pass: to gcc 12 one that only prefetches has no
// effect.
struct StepHints {
  const WeightsAhead& ahead;
  size_t first_step;
  size_t num_steps;

  [[gnu::always_inline]] void at(size_t step) const { ahead.ask_at(first_step + step, num_steps); }
};

// Adds the products of one group, or of a byte of its inputs, to `sums`. Where these are few, every
// other four inputs have sums of their own, because a product takes several cycles and one or two
// start in each.
template <class Dots, class Source, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void multiply_group(
    const GroupPlace<Dots, kPanels, kTokens>& place,
    typename Dots::Table table,
    const StepHints& hints,
    typename Dots::Sums (&sums)[kPanels][kTokens]
) {
  if constexpr (Dots::kInputsAtOnce == 16) {
#pragma GCC unroll 4
    for (size_t quarter = 0; quarter < 4; ++quarter) {
      add_sixteen_inputs<Dots, Source>(place, quarter, table, sums);
    }
  } else if constexpr (Dots::kInputsAtOnce == 8) {
#pragma GCC unroll 8
    for (size_t step = 0; step < kGroupSteps; ++step) {
      add_eight_inputs<Dots, Source>(place, step, table, sums);
    }
  } else if constexpr (kPanels * kTokens > Dots::kFewSums) {
#pragma GCC unroll 8
    for (size_t step = 0; step < kGroupSteps; ++step) {
      if constexpr (kLooksAhead<Source, kPanels>) hints.at(2 * step);
      add_four_inputs<Dots, Source, false>(place, step, table, sums);
      if constexpr (kLooksAhead<Source, kPanels>) hints.at(2 * step + 1);
      add_four_inputs<Dots, Source, true>(place, step, table, sums);
    }
  } else {
    typename Dots::Sums others[kPanels][kTokens];
#pragma GCC unroll 8
    for (size_t panel = 0; panel < kPanels; ++panel) {
#pragma GCC unroll 12
      for (size_t token = 0; token < kTokens; ++token) {
        others[panel][token] = Dots::broadcast_sum(0);
      }
    }
#pragma GCC unroll 8
    for (size_t step = 0; step < kGroupSteps; ++step) {
      if constexpr (kLooksAhead<Source, kPanels>) hints.at(2 * step);
      add_four_inputs<Dots, Source, false>(place, step, table, sums);
      if constexpr (kLooksAhead<Source, kPanels>) hints.at(2 * step + 1);
      add_four_inputs<Dots, Source, true>(place, step, table, others);
    }
#pragma GCC unroll 8
    for (size_t panel = 0; panel < kPanels; ++panel) {
#pragma GCC unroll 12
      for (size_t token = 0; token < kTokens; ++token) {
        sums[panel][token] = Dots::add(sums[panel][token], others[panel][token]);
      }
    }
  }
}

// What the sums of a group begin with, each of a token's panels with the same. `starts`: of the
// first token.
template <class Dots, size_t kPanels, size_t kTokens, class Function>
[[gnu::always_inline]] inline void for_starts(
    const unsigned char* starts, size_t stride, const Function& function
) {
#pragma GCC unroll 12
  for (size_t token = 0; token < kTokens; ++token) {
    const auto start = Dots::broadcast_sum(*reinterpret_cast<const int*>(starts));
#pragma GCC unroll 8
    for (size_t panel = 0; panel < kPanels; ++panel) function(panel, token, start);
    starts += stride;
    forget_origin(starts);
  }
}

// The sums of a group's products, and what is asked for meanwhile. Of inputs in two bytes those of
// the upper ones come first, and the place goes on to the lower ones.
template <class Dots, class Source, class Scales, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void sum_group(
    GroupPlace<Dots, kPanels, kTokens>& place,
    const unsigned char* starts,
    typename Dots::Table table,
    WeightsAhead& ahead,
    typename Dots::Sums (&sums)[kPanels][kTokens]
) {
  using Sums = typename Dots::Sums;
  constexpr bool kAreTwoBytes = Scales::kAreOfNumbers && Dots::kInputBytes == 1;
  constexpr size_t kNumSteps = 2 * kGroupSteps * (kAreTwoBytes ? 2 : 1);
  const size_t stride = place.inputs.stride;
  if constexpr (kAreTwoBytes) {
#pragma GCC unroll 8
    for (size_t panel = 0; panel < kPanels; ++panel) {
#pragma GCC unroll 12
      for (size_t token = 0; token < kTokens; ++token) sums[panel][token] = Dots::broadcast_sum(0);
    }
    multiply_group<Dots, Source>(place, table, {ahead, 0, kNumSteps}, sums);
    for_starts<Dots, kPanels, kTokens>(starts, stride, [&](size_t panel, size_t token, Sums start) {
      sums[panel][token] = Dots::add(Dots::times_256(sums[panel][token]), start);
    });
    place.inputs.advance(kGroupInputs);
    place.inputs.forget_origins();
    // Else the compiler keeps all of a group's weights, most of them in memory of its own.
    for (const unsigned char*& weights : place.weights) forget_origin(weights);
  } else {
    for_starts<Dots, kPanels, kTokens>(starts, stride, [&](size_t panel, size_t token, Sums start) {
      sums[panel][token] = start;
    });
  }
  constexpr size_t kStepsBefore = kAreTwoBytes ? 2 * kGroupSteps : 0;
  multiply_group<Dots, Source>(place, table, {ahead, kStepsBefore, kNumSteps}, sums);
  if constexpr (kLooksAhead<Source, kPanels>) {
    ahead.ask_for_rest(Dots::kInputsAtOnce > 4 ? 0 : kNumSteps);
  }
}

}  // namespace
}  // namespace millrace
