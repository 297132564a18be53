// linear_quantized on sixteen lanes: the order of panels and of blocks of tokens
// (quantized_blocks_lanes.h). See lanes.h for the rules of this file. A type `Shape` has, where
// Dots do not unpack, kFewTerms besides (below).
#pragma once

#include "kernels/quantized/quantized_blocks_lanes.h"

namespace millrace {
namespace {

// That long are more than two terms of inputs for each weight; and more than Shape::kFewTerms, if
// rows have no more groups (of each term) than these, so that inputs stay in the first cache until
// the next panel. Where hints ask for weights, kFewTokens are few, whatever their terms, and where
// they are near ones all that fit one tile (docs/decisions/0021).
constexpr size_t kFewTermsOfLongRows = 2;
constexpr size_t kFewGroups = 28;

// Whether so many tokens pass by one panel after the other.
template <class Kernel>
bool are_few(const QuantizedTask& task, size_t num_tokens) {
  if (num_tokens > Kernel::few_tokens_max()) return false;
  if constexpr (Kernel::Dots::kUnpacks) {
    return true;
  } else {
    const size_t hint_bytes = task.output.hint_bytes;
    if (hint_bytes > 0) return num_tokens <= kFewTokens || hint_bytes < kFarHintBytes;
    const size_t num_terms = task.value_bytes / kGroupInputs;
    const bool are_short_rows = task.num_groups * num_terms <= kFewGroups;
    const size_t num_terms_max = are_short_rows ? Kernel::Shape::kFewTerms : kFewTermsOfLongRows;
    return num_tokens * num_terms <= num_terms_max;
  }
}

template <class Kernel, size_t kPanels>
void run_quantized_panels(const QuantizedTask& task, const TilePlace& place) {
  if (are_few<Kernel>(task, place.num_tokens)) {
    run_few<Kernel, kPanels>(task, place);
  } else if constexpr (Kernel::Dots::kUnpacks) {
    run_unpacked_block<Kernel, kPanels>(task, place);
  } else {
    run_block<Kernel, kPanels>(task, place);
  }
}

template <class Kernel>
void run_all_panels(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  const size_t num_tokens = task.output.num_tokens;
  const size_t num_block_tokens = kBlocks.num_tokens_of(num_tokens, task.row_stride);
  for (size_t token = 0; token < num_tokens; token += num_block_tokens) {
    const size_t rest = num_tokens - token;
    const size_t count = rest < num_block_tokens ? rest : num_block_tokens;
    size_t panel = panel_begin;
    for (; panel + kTilePanels <= panel_end; panel += kTilePanels) {
      run_quantized_panels<Kernel, kTilePanels>(task, {panel, kTilePanels, token, count});
    }
    if (panel < panel_end) {
      run_quantized_panels<Kernel, 1>(task, {panel, 1, token, count});
    }
  }
}

template <class Dots, class Shape>
void linear_quantized_lanes(Int8Weights, const QuantizedTask& task, size_t begin, size_t end) {
  if (task.has_row_scales) {
    run_all_panels<Kernel<Dots, Shape, Int8Weights, RowScalesOfNumbers>>(task, begin, end);
  } else {
    run_all_panels<Kernel<Dots, Shape, Int8Weights, GroupScales>>(task, begin, end);
  }
}
// Nobody rounds the inputs of int4 and int6 by groups, and those of codes otherwise.
template <class Dots, class Shape, class Weights>
void linear_quantized_lanes(Weights, const QuantizedTask& task, size_t begin, size_t end) {
  run_all_panels<Kernel<Dots, Shape, Weights, RowScales>>(task, begin, end);
}
template <class Dots, class Shape, class Weights>
requires kAreCodes<Weights>
void linear_quantized_lanes(Weights, const QuantizedTask& task, size_t begin, size_t end) {
  run_all_panels<Kernel<Dots, Shape, Weights, GroupScales>>(task, begin, end);
}

}  // namespace
}  // namespace millrace
