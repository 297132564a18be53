// What one tile of linear_quantized adds up on sixteen lanes: a panel or two x a few tokens, whose
// sums, integers of a group and floats of all groups, stay in registers. See lanes.h for the rules
// of this file, group_weights_lanes.h for what `Dots` are.
//
// Floats are added group by group, ascending. `Scales` says what inputs share a scale
// (scaled_sums_lanes.h).
#pragma once

#include "kernels/lanes.h"
#include "kernels/quantized/group_sums_lanes.h"
#include "kernels/quantized/scaled_sums_lanes.h"

namespace millrace {
namespace {

// Some tokens, a panel or two, and some groups of them.
struct QuantizedTile {
  size_t panel;
  size_t token;
  size_t group_begin;
  size_t group_end;
  // [panels][tokens][16] of the groups before; those of these groups are added, and after the last
  // group all are multiplied by the rows' scales, of weights and of inputs.
  float* sums;
  // The groups' weights where they were unpacked for many tokens, and the bytes from a panel's to
  // the next one's.
  const unsigned char* unpacked = nullptr;
  size_t unpacked_stride = 0;
  // What a tile of many tokens asks for meanwhile.
  WeightsAhead ahead = {};
  // How far ahead of its weights a tile of few tokens asks for others; 0: not at all.
  size_t hint_bytes = 0;
};

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

// `place`: of a group.
template <class Dots, class Weights, class Source, size_t kPanels, size_t kTokens>
[[gnu::always_inline]] inline void find_weights(
    const QuantizedTask& task,
    const QuantizedTile& tile,
    size_t group,
    GroupPlace<Dots, kPanels, kTokens>& place
) {
  if constexpr (kAreUnpacked<Source>) {
    place.weights_at(
        tile.unpacked + (group - tile.group_begin) * kUnpackedGroupBytes<Dots>, tile.unpacked_stride
    );
  } else {
    const unsigned char* const panel = task.panels + tile.panel * task.panel_bytes;
    place.weights_at(panel + Weights::kLayout.codes_offset(group), task.panel_bytes);
    if (kPanels == 1 && tile.hint_bytes != 0) {
      ask_for_bytes<Weights::kGroupBytes>(place.weights[0] + tile.hint_bytes);
    }
  }
}

// Adds a tile's groups to its sums. `Source`: Weights, or as they were unpacked.
template <class Dots, class Weights, class Source, class Scales, size_t kPanels, size_t kTokens>
void add_groups(const QuantizedTask& task, const QuantizedTile& tile) {
  using Floats = typename Dots::Floats;
  const unsigned char* const row = task.rows + tile.token * task.row_stride;
  const unsigned char* const panel = task.panels + tile.panel * task.panel_bytes;
  const typename Dots::Table table = Dots::load_table(kInt4Codes);
  Floats totals[kPanels][kTokens];  // in registers: every index is known when compiling
  load_totals<Dots>(tile, totals);
  WeightsAhead ahead = tile.ahead;
  GroupPlace<Dots, kPanels, kTokens> place = {{}, {{}, task.row_stride}};
  place.inputs.begin_at(row + tile.group_begin * task.value_bytes);
  for (size_t group = tile.group_begin; group < tile.group_end; ++group) {
    place.inputs.forget_origins();
    find_weights<Dots, Weights, Source>(task, tile, group, place);
    const unsigned char* const starts =
        row + task.num_groups * task.value_bytes + group * sizeof(int);
    const ScalesPlace scales = {
        .weights = panel + Weights::kLayout.scales_offset(group),
        .panel_bytes = task.panel_bytes,
        .inputs = starts + task.num_groups * sizeof(int),
    };
    typename Dots::Sums sums[kPanels][kTokens];
    sum_group<Dots, Source, Scales>(place, starts, table, ahead, sums);
    add_scaled<Dots>(Scales{}, place, scales, sums, totals);
    place.inputs.advance(kInputGroupBytes<Dots>);
  }
  store_totals<Dots, Weights, Scales>(task, tile, totals);
}

}  // namespace
}  // namespace millrace
