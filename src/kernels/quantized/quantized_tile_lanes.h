// What one tile of linear_quantized adds up on sixteen lanes: a panel or two x a few tokens, whose
// sums, integers of a group and floats of all groups, stay in registers. See lanes.h for the rules
// of this file. A type `Dots` says how sixteen rows' sums are kept and multiplied:
//
//   Floats, Weights, Inputs, Sums     sixteen floats; 16 x 4 bytes; four inputs; sixteen integers
//   load_weights(p)                   64 bytes
//   low_bits(p), high_bits(p)         the lower and upper four bits of 64 bytes
//   with_high_bits<from, n>(low, p)   those and, above them, n bits from bit `from` of 64 bytes on
//   low_codes(p, lut), high_codes     the same, looked up
//   load_table(codes)                 sixteen bytes, for the two above
//   broadcast_inputs(p), broadcast_sum(i)
//   dot(weights, inputs, sums)        sums + the exact products of unsigned weights, signed inputs
//   dot_codes(weights, inputs, sums)  the same of weights up to 63
//   add(a, b)                         of sums
//   as_floats(sums)                   the same bits
//   total(high, low)                  256 * high + low, as floats
//   load_scales(p)                    sixteen unsigned bytes as floats
//
// Sums over a group are exact, so their order is free; floats are added group by group, ascending.
// `Scales` says what inputs share a scale (scaled_sums_lanes.h).
#pragma once

#include "kernels/lanes.h"
#include "kernels/quantized/linear_quantized_kernel.h"
#include "kernels/quantized/scaled_sums_lanes.h"
#include "kernels/quantized/tile_memory_lanes.h"

namespace millrace {
namespace {

constexpr size_t kGroupSteps = kGroupInputs / 8;

// Some tokens, a panel or two, and some groups of them.
struct QuantizedTile {
  size_t panel;
  size_t token;
  size_t group_begin;
  size_t group_end;
  // [panels][tokens][16] of the groups before; those of these groups are added, and after the last
  // group all are multiplied by the rows' scales, of weights and of inputs.
  float* sums;
  // What a tile of two panels asks for meanwhile.
  WeightsAhead ahead = {};
  // How far ahead of its weights a tile of one panel asks for others; 0: not at all.
  size_t hint_bytes = 0;
};

template <class Dots, bool kHigh>
[[gnu::always_inline]] inline typename Dots::Weights read_weights(
    Int8Weights, const unsigned char* group, size_t step, typename Dots::Table
) {
  return Dots::load_weights(group + (2 * step + (kHigh ? 1 : 0)) * 64);
}
template <class Dots, bool kHigh>
[[gnu::always_inline]] inline typename Dots::Weights read_weights(
    Int4Weights, const unsigned char* group, size_t step, typename Dots::Table table
) {
  return kHigh ? Dots::high_codes(group + step * 64, table)
               : Dots::low_codes(group + step * 64, table);
}

// Inputs 8 * step to + 4, or the four after those.
template <class Dots, class Weights, bool kHigh, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void add_four_inputs(
    const GroupPlace<kPanels, kTokens>& place,
    size_t step,
    typename Dots::Table table,
    typename Dots::Sums (&sums)[kPanels][kTokens]
) {
  typename Dots::Weights weights[kPanels];
#pragma GCC unroll 8
  for (size_t panel = 0; panel < kPanels; ++panel) {
    weights[panel] = read_weights<Dots, kHigh>(Weights{}, place.weights[panel], step, table);
  }
#pragma GCC unroll 12
  for (size_t token = 0; token < kTokens; ++token) {
    const unsigned char* four = place.inputs.row(token) + step * 8 + (kHigh ? 4 : 0);
    const typename Dots::Inputs input = Dots::broadcast_inputs(four);
#pragma GCC unroll 8
    for (size_t panel = 0; panel < kPanels; ++panel) {
      sums[panel][token] = Dots::dot(weights[panel], input, sums[panel][token]);
    }
  }
}

// Adds the products of one group, or of one term of it, to `sums`. Where these are few, every other
// four inputs have sums of their own, because a product takes several cycles and one or two start
// in each.
template <class Dots, class Weights, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void multiply_group(
    const GroupPlace<kPanels, kTokens>& place,
    typename Dots::Table table,
    typename Dots::Sums (&sums)[kPanels][kTokens]
) {
  if constexpr (kPanels * kTokens > 3) {
#pragma GCC unroll 8
    for (size_t step = 0; step < kGroupSteps; ++step) {
      add_four_inputs<Dots, Weights, false>(place, step, table, sums);
      add_four_inputs<Dots, Weights, true>(place, step, table, sums);
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
      add_four_inputs<Dots, Weights, false>(place, step, table, sums);
      add_four_inputs<Dots, Weights, true>(place, step, table, others);
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

// tile.sums of the groups before.
template <class Dots, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void load_totals(
    const QuantizedTile& tile, typename Dots::Floats (&totals)[kPanels][kTokens]
) {
  using Floats = typename Dots::Floats;
#pragma GCC unroll 8
  for (size_t panel = 0; panel < kPanels; ++panel) {
#pragma GCC unroll 12
    for (size_t token = 0; token < kTokens; ++token) {
      const float* before = tile.sums + (panel * kTokens + token) * kLanes;
      totals[panel][token] = tile.group_begin == 0 ? Floats::zero() : Floats::load(before);
    }
  }
}

// Into tile.sums; times the rows' scales if these are all groups.
template <class Dots, class Weights, class Scales, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void store_totals(
    const QuantizedTask& task,
    const QuantizedTile& tile,
    const typename Dots::Floats (&totals)[kPanels][kTokens]
) {
  using Floats = typename Dots::Floats;
  const bool is_last = tile.group_end == task.num_groups;
  const unsigned char* row_scales = task.panels + tile.panel * task.panel_bytes +
                                    Weights::kLayout.row_scales_offset(task.num_groups);
  const unsigned char* row = task.rows + tile.token * task.row_stride;
#pragma GCC unroll 8
  for (size_t panel = 0; panel < kPanels; ++panel) {
    const unsigned char* p = row_scales + panel * task.panel_bytes;
    const Floats scale =
        is_last ? Floats::load(reinterpret_cast<const float*>(p)) : Floats::broadcast(1.0F);
#pragma GCC unroll 12
    for (size_t token = 0; token < kTokens; ++token) {
      float* sums = tile.sums + (panel * kTokens + token) * kLanes;
      Floats values = Floats::mul(totals[panel][token], scale);
      if (is_last) {
        const float of_token = scale_of_token(Scales{}, task, row + token * task.row_stride);
        values = Floats::mul(values, Floats::broadcast(of_token));
      }
      Floats::store(sums, values);
    }
  }
}

// Adds a tile's groups to its sums.
template <class Dots, class Weights, class Scales, size_t kPanels, size_t kTokens>
void add_groups(const QuantizedTask& task, const QuantizedTile& tile) {
  using Floats = typename Dots::Floats;
  const unsigned char* row = task.rows + tile.token * task.row_stride;
  const unsigned char* panels = task.panels + tile.panel * task.panel_bytes;
  const size_t row_stride = task.row_stride;
  const size_t panel_stride = task.panel_bytes;
  const size_t num_terms = task.num_terms;
  const size_t num_parts = task.num_groups * num_terms;
  const typename Dots::Table table = Dots::load_table(kInt4Codes);
  Floats totals[kPanels][kTokens];  // in registers: every index is known when compiling
  load_totals<Dots>(tile, totals);
  const size_t part_end = tile.group_end * num_terms;
  const size_t tile_parts = part_end - tile.group_begin * num_terms;
  const size_t lines_per_part = (tile.ahead.num_lines + tile_parts - 1) / tile_parts;
  size_t next_line = 0;
  size_t group = tile.group_begin;
  size_t term = 0;
  GroupPlace<kPanels, kTokens> place = {{}, {{}, row_stride}};
  place.inputs.begin_at(row + group * num_terms * kGroupInputs);
  for (size_t part = group * num_terms; part < part_end; ++part) {
    place.inputs.forget_origins();
    place.weights_at(panels + Weights::kLayout.codes_offset(group), panel_stride);
    const unsigned char* begin = row + num_parts * kGroupInputs + part * sizeof(int);
    const ScalesPlace scales = {
        .weights = panels + Weights::kLayout.scales_offset(group),
        .panel_bytes = panel_stride,
        .inputs = begin + num_parts * sizeof(int),
        .term = term,
    };
    typename Dots::Sums sums[kPanels][kTokens];
#pragma GCC unroll 12
    for (size_t token = 0; token < kTokens; ++token) {
#pragma GCC unroll 8
      for (size_t panel = 0; panel < kPanels; ++panel) {
        sums[panel][token] = Dots::broadcast_sum(*reinterpret_cast<const int*>(begin));
      }
      begin += place.inputs.stride;
      forget_origin(begin);
    }
    if constexpr (kPanels == 1) {
      if (tile.hint_bytes != 0 && term == 0) {
        ask_for_bytes<Weights::kGroupBytes>(place.weights[0] + tile.hint_bytes);
      }
    }
    multiply_group<Dots, Weights>(place, table, sums);
    if constexpr (kPanels > 1) {
      ask_for_weights(tile.ahead, next_line, lines_per_part);
    }
    add_scaled<Dots, Weights>(Scales{}, place, scales, sums, totals);
    place.inputs.advance(kGroupInputs);
    if (++term == num_terms) {
      term = 0;
      ++group;
    }
  }
  store_totals<Dots, Weights, Scales>(task, tile, totals);
}

}  // namespace
}  // namespace millrace
