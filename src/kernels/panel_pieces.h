// How the threads of a product share the panels of its matrix.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "base/math.h"
#include "kernels/executor.h"
#include "kernels/experts/row_groups.h"
#include "kernels/panel_data.h"

namespace millrace {

// Panels that are not parted: gate and up of one output, and what AMX multiplies at once.
inline constexpr size_t kPanelsTogether = 2;

struct PanelWork {
  size_t num_groups = 1;  // of rows, each with panels of its own
  size_t num_panels = 0;  // of each group
  size_t panel_bytes = 0;
  size_t num_tokens = 0;  // of all groups
  PanelData next;         // what is multiplied after it: threads that wait ask memory for it
};

// function(thread, group, panel_begin, panel_end), of even panel_begin, over pieces of all panels
// of all groups; panels are counted from the group's first one on.
template <class F>
void for_panels(const Executor& executor, const PanelWork& work, const F& function) {
  // Some microseconds of work: each piece begins without weights that are unpacked or asked for.
  // More tokens than one tile's are multiplied for longer than their weights are read, and their
  // pieces are larger: with AMX pieces of one pair of panels made a server 2 % slower. Without, the
  // same work takes eight times as long, a quarter of a millisecond for which others may wait.
  constexpr size_t kTileTokens = 16;
  constexpr size_t kPieceBytes = size_t{128} << 10;
  constexpr size_t kPieceBytesOfTiles = size_t{256} << 10;
  constexpr size_t kPieceBytesOfAmxTiles = size_t{2} << 20;
  const size_t bytes_of_tiles =
      executor.isa == Isa::kAmx ? kPieceBytesOfAmxTiles : kPieceBytesOfTiles;
  const size_t num_tiles = div_ceil(work.num_tokens, work.num_groups * kTileTokens);
  const size_t piece_bytes = num_tiles == 1 ? kPieceBytes : bytes_of_tiles / num_tiles;
  const size_t piece_min = piece_bytes / (kPanelsTogether * work.panel_bytes);
  const size_t num_units = div_ceil(work.num_panels, kPanelsTogether);  // of a group
  executor.pool.read_soon(
      {.data = work.next.data,
       .num_units = div_ceil(work.next.num_panels, kPanelsTogether),
       .unit_bytes = kPanelsTogether * work.next.panel_bytes}
  );
  executor.pool.parallel_pieces(
      work.num_groups * num_units,
      std::max<size_t>(piece_min, 1),
      [&](size_t thread, size_t begin, size_t end) {
        while (begin < end) {
          const size_t group = begin / num_units;
          const size_t first = begin % num_units;
          const size_t count = std::min(end - begin, num_units - first);
          const size_t panel_end = std::min((first + count) * kPanelsTogether, work.num_panels);
          function(thread, group, first * kPanelsTogether, panel_end);
          begin += count;
        }
      }
  );
}

struct GroupedWork {
  PanelData panels;  // of the whole matrix
  size_t num_rows = 0;
  std::optional<RowGroups> groups;  // none: all rows are multiplied by all panels
  PanelData next;
};

// A product, some groups at a time: make_task(group, first_panel), a Task, of each on this thread,
// then run(thread, task, panel_begin, panel_end) as for_panels() does.
template <class Task, class MakeTask, class Run>
void for_grouped_panels(
    const Executor& executor, const GroupedWork& work, const MakeTask& make_task, const Run& run
) {
  const RowGroup all_rows = {.num_rows = work.num_rows};
  const RowGroups all = work.groups.value_or(RowGroups{{&all_rows, 1}, work.panels.num_panels});
  for (size_t first = 0; first < all.groups.size(); first += kGroupsAtOnce) {
    const size_t count = std::min(kGroupsAtOnce, all.groups.size() - first);
    const std::span<const RowGroup> groups = all.groups.subspan(first, count);
    std::array<Task, kGroupsAtOnce> tasks;  // the first `count` of them
    for (size_t i = 0; i < count; ++i) {
      tasks[i] = make_task(groups[i], groups[i].part * all.part_panels);
    }
    const PanelWork some = {
        .num_groups = count,
        .num_panels = all.part_panels,
        .panel_bytes = work.panels.panel_bytes,
        .num_tokens = num_rows_of(groups),
        .next = work.next,
    };
    for_panels(executor, some, [&](size_t thread, size_t group, size_t begin, size_t end) {
      run(thread, tasks[group], begin, end);
    });
  }
}

}  // namespace millrace
