// What a tile of linear_quantized adds up where weights are codes (CodedWeights): a panel or two x
// a few tokens, both bytes of whose inputs (CodedInputs) are multiplied at once, or their words, so
// that a code is taken out of its bytes once for all of them. Sums of a group's part are exact;
// floats are added group by group, ascending. See lanes.h for the rules of this file,
// group_weights_lanes.h for what `Dots` are.
#pragma once

#include "kernels/quantized/code_weights_lanes.h"
#include "kernels/quantized/quantized_tile_lanes.h"

namespace millrace {
namespace {

// Of the inputs' upper bytes and of their lower ones, or of their words.
template <class Dots>
constexpr size_t kSumsOfToken = 2 / Dots::kInputBytes;
template <class Dots, size_t kPanels, size_t kTokens>
using SumsOfBytes = typename Dots::Sums[kPanels][kTokens][kSumsOfToken<Dots>];

template <class Dots, class Weights, class Source, size_t kFour, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void add_four_codes(
    const GroupPlace<Dots, kPanels, kTokens>& place, SumsOfBytes<Dots, kPanels, kTokens>& sums
) {
  typename Dots::Weights weights[kPanels];
#pragma GCC unroll 2
  for (size_t panel = 0; panel < kPanels; ++panel) {
    weights[panel] = weights_of_four<Dots, Weights, Source, kFour>(place.weights[panel]);
  }
#pragma GCC unroll 8
  for (size_t token = 0; token < kTokens; ++token) {
    const unsigned char* const four = place.inputs.row(token) + kFour * 4 * Dots::kInputBytes;
#pragma GCC unroll 2
    for (size_t byte = 0; byte < kSumsOfToken<Dots>; ++byte) {
      add_products<Dots>(weights, four + byte * kGroupInputs, [&](size_t panel) {
        return &sums[panel][token][byte];
      });
    }
  }
}

// Inputs 4 * kFour to 4 * kEnd. Every other four of them go to `others`, which may be `sums`.
template <
    class Dots,
    class Weights,
    class Source,
    size_t kFour,
    size_t kEnd,
    size_t kPanels,
    size_t kTokens>
[[gnu::always_inline]] inline void add_codes(
    const GroupPlace<Dots, kPanels, kTokens>& place,
    SumsOfBytes<Dots, kPanels, kTokens>& sums,
    SumsOfBytes<Dots, kPanels, kTokens>& others
) {
  add_four_codes<Dots, Weights, Source, kFour>(place, sums);
  add_four_codes<Dots, Weights, Source, kFour + 1>(place, others);
  if constexpr (kFour + 2 < kEnd) {
    add_codes<Dots, Weights, Source, kFour + 2, kEnd>(place, sums, others);
  }
}

// The sums of one part of a group. Where these are few, every other four inputs have sums of their
// own (multiply_group()).
template <class Dots, class Weights, class Source, size_t kPart, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void multiply_codes(
    const GroupPlace<Dots, kPanels, kTokens>& place, SumsOfBytes<Dots, kPanels, kTokens>& sums
) {
  constexpr size_t kFours = kGroupFours / Weights::kParts;
  constexpr size_t kBegin = kPart * kFours;
  constexpr size_t kNumSums = kPanels * kTokens * kSumsOfToken<Dots>;
  if constexpr (kNumSums > Dots::kFewSums) {
    add_codes<Dots, Weights, Source, kBegin, kBegin + kFours>(place, sums, sums);
  } else {
    static_assert(kPanels * kTokens == 1);
    SumsOfBytes<Dots, 1, 1> others;
    for (auto& sum : others[0][0]) sum = Dots::broadcast_sum(0);
    add_codes<Dots, Weights, Source, kBegin, kBegin + kFours>(place, sums, others);
    for (size_t byte = 0; byte < kSumsOfToken<Dots>; ++byte) {
      sums[0][0][byte] = Dots::add(sums[0][0][byte], others[0][0][byte]);
    }
  }
}

// Sixteen float16 of a group's part. `first`: those of the first panel.
template <class Floats>
[[gnu::always_inline]] inline Floats load_part(const unsigned char* first, size_t place) {
  return Floats::load(reinterpret_cast<const Float16*>(first + place));
}

// Where the scales, the bases and the inputs of a tile's group lie: those of the first panel, and
// of the first token.
struct CodedGroup {
  const unsigned char* scales;
  const unsigned char* bases;
  size_t panel_bytes;
  const unsigned char* inputs;  // CodedInputs, input_stride apart
  size_t input_stride;
};

// What the sums of the lower bytes' products of a part start with: where weights have no bases,
// less the code of zero times the inputs.
template <class Weights, size_t kPart>
[[gnu::always_inline]] inline int32_t start_of_part(const CodedInputs& input) {
  if constexpr (Weights::kCodes.has_bases) return 0;
  constexpr size_t kQuarters = 4 / Weights::kParts;
  int32_t start = 0;
  for (size_t i = 0; i < kQuarters; ++i) start += input.starts[kPart * kQuarters + i];
  return start >> (kStartBits - Weights::kZeroBits);
}

// What a part's base is multiplied by.
template <class Weights, size_t kPart>
[[gnu::always_inline]] inline float inputs_of_part(const CodedInputs& input) {
  if constexpr (Weights::kParts == 1) return input.sum;
  if constexpr (Weights::kParts == 2) return input.half_sums[kPart];
  return static_cast<float>(-(input.starts[kPart] >> kStartBits));
}

// Of both bytes' products, or of words'.
template <class Dots>
[[gnu::always_inline]] inline typename Dots::Floats total_of(const typename Dots::Sums (&sums)[2]) {
  return Dots::to_floats(Dots::add(Dots::times_256(sums[0]), sums[1]));
}
template <class Dots>
[[gnu::always_inline]] inline typename Dots::Floats total_of(const typename Dots::Sums (&sums)[1]) {
  return Dots::to_floats(sums[0]);
}

// The products of part kPart and of those after it, times the weights' scales: the first part sets
// `values`, the others add to it.
template <class Dots, class Weights, class Source, size_t kPart, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void multiply_parts(
    const CodedGroup& group,
    const GroupPlace<Dots, kPanels, kTokens>& place,
    typename Dots::Floats (&values)[kPanels][kTokens]
) {
  using Floats = typename Dots::Floats;
  SumsOfBytes<Dots, kPanels, kTokens> sums;
  const unsigned char* coded = group.inputs;
#pragma GCC unroll 8
  for (size_t token = 0; token < kTokens; ++token) {
    const auto& input = *reinterpret_cast<const CodedInputs*>(coded);
#pragma GCC unroll 2
    for (size_t panel = 0; panel < kPanels; ++panel) {
      auto& of_token = sums[panel][token];
      if constexpr (kSumsOfToken<Dots> == 2) of_token[0] = Dots::broadcast_sum(0);
      of_token[kSumsOfToken<Dots> - 1] = Dots::broadcast_sum(start_of_part<Weights, kPart>(input));
    }
    if constexpr (!Weights::kCodes.has_bases) {
      coded += group.input_stride;
      forget_origin(coded);
    }
  }
  multiply_codes<Dots, Weights, Source, kPart>(place, sums);
#pragma GCC unroll 2
  for (size_t panel = 0; panel < kPanels; ++panel) {
    const size_t at = panel * group.panel_bytes + kPart * Weights::kPartBytes;
    const Floats scale = load_part<Floats>(group.scales, at);
#pragma GCC unroll 8
    for (size_t token = 0; token < kTokens; ++token) {
      Floats& value = values[panel][token];
      const Floats total = total_of<Dots>(sums[panel][token]);
      value = kPart == 0 ? Floats::mul(total, scale) : Floats::fma(total, scale, value);
    }
  }
  if constexpr (kPart + 1 < Weights::kParts) {
    multiply_parts<Dots, Weights, Source, kPart + 1>(group, place, values);
  }
}

// `value` and the bases of a panel, from part kPart on, times a token's inputs.
template <class Weights, size_t kPart, class Floats>
[[gnu::always_inline]] inline Floats with_bases(
    const unsigned char* bases, const CodedInputs& input, Floats value
) {
  if constexpr (!Weights::kCodes.has_bases || kPart == Weights::kParts) {
    return value;
  } else {
    const Floats base = load_part<Floats>(bases, kPart * Weights::kPartBytes);
    const Floats sum = Floats::broadcast(inputs_of_part<Weights, kPart>(input));
    return with_bases<Weights, kPart + 1>(bases, input, Floats::fma(base, sum, value));
  }
}

// Adds a tile's groups to its sums. `Source`: Weights, or as they were unpacked.
template <class Dots, class Weights, class Source, size_t kPanels, size_t kTokens>
void add_code_groups(const QuantizedTask& task, const QuantizedTile& tile) {
  using Floats = typename Dots::Floats;
  const unsigned char* const row = task.rows + tile.token * task.row_stride;
  const unsigned char* const panels = task.panels + tile.panel * task.panel_bytes;
  Floats totals[kPanels][kTokens];
  load_totals<Dots>(tile, totals);
  WeightsAhead ahead = tile.ahead;
  GroupPlace<Dots, kPanels, kTokens> place = {{}, {{}, task.row_stride}};
  place.inputs.begin_at(row + tile.group_begin * task.value_bytes);
  CodedGroup at = {.panel_bytes = task.panel_bytes, .input_stride = task.row_stride};
  at.inputs = row + task.num_groups * task.value_bytes + tile.group_begin * sizeof(CodedInputs);
  for (size_t group = tile.group_begin; group < tile.group_end; ++group) {
    place.inputs.forget_origins();
    find_weights<Dots, Weights, Source>(task, tile, group, place);
    at.scales = panels + Weights::kLayout.scales_offset(group);
    at.bases = panels + Weights::kLayout.bases_offset(group);
    Floats values[kPanels][kTokens];
    multiply_parts<Dots, Weights, Source, 0>(at, place, values);
    if constexpr (kLooksAhead<Source, kPanels>) ahead.ask_for_rest(0);
#pragma GCC unroll 2
    for (size_t panel = 0; panel < kPanels; ++panel) {
      const unsigned char* of_token = at.inputs;
#pragma GCC unroll 8
      for (size_t token = 0; token < kTokens; ++token) {
        const auto& input = *reinterpret_cast<const CodedInputs*>(of_token);
        const unsigned char* const bases = at.bases + panel * task.panel_bytes;
        const Floats value = with_bases<Weights, 0>(bases, input, values[panel][token]);
        Floats& total = totals[panel][token];
        total = Floats::fma(value, Floats::broadcast(input.scale), total);
        of_token += task.row_stride;
        forget_origin(of_token);
      }
    }
    place.inputs.advance(2 * kGroupInputs);  // of two bytes
    at.inputs += sizeof(CodedInputs);
  }
  store_totals<Dots, Weights, GroupScales>(task, tile, totals);
}

}  // namespace
}  // namespace millrace
