// Rotated rows as tiles of AMX, on sixteen lanes. See lanes.h for the rules of this file. `Ops` is
// what Lanes lack, as in rotated_row_lanes.h and encode_rows_lanes.h, and
//
//   swap_middle(a)    the second and the third of every four exchanged
//
// and of ByteSums total().
#pragma once

#include "kernels/lanes.h"
#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/quantized/rotated_row_lanes.h"

namespace millrace {
namespace {

// One row, in its place of all tiles.
template <class Lanes, class Ops>
void write_row_of_tiles(const RotatedTilesTask& task, size_t row) {
  constexpr size_t kTileColumns = 32;
  const RowsToRotate& rows = task.rows;
  const size_t num_columns = rows.num_groups * 64;
  const size_t tile_size = task.tile_rows * kTileColumns;
  BFloat16* out = task.tiles + row / 16 * 16 * num_columns + row % 16 * kTileColumns;
  for (size_t begin = 0; begin < num_columns; begin += rows.rotation) {
    for_rotated_groups<Lanes, Ops>(rows, row, begin, [&](size_t, const Lanes(&parts)[4]) {
      Lanes::store(out, Ops::swap_middle(parts[0]));
      Lanes::store(out + kLanes, Ops::swap_middle(parts[1]));
      Lanes::store(out + tile_size, Ops::swap_middle(parts[2]));
      Lanes::store(out + tile_size + kLanes, Ops::swap_middle(parts[3]));
      out += 2 * tile_size;
    });
  }
}

// One row, in its place of all tiles of bytes, and its scale.
template <class Lanes, class Ops>
void encode_row_to_tiles(const ByteTilesTask& task, size_t row, size_t next_row) {
  const RowsToRotate& rows = task.rows;
  RotatedRow<Lanes, Ops> rotated(rows, row, next_row);
  typename Ops::ByteSums sums;
  const Lanes inverse = Lanes::broadcast(127.0F / rotated.peak());
  unsigned char* out = task.tiles + row / 16 * 16 * rows.num_groups * 64 + row % 16 * 64;
  for (size_t begin = 0; begin < rows.num_groups; begin += kLanes) {
    const GroupsOfRow groups = sixteen_groups(rows, row, begin);
    const float* values = rotated.values(groups);
    for (size_t i = 0; i < groups.num_groups; ++i, values += 64, out += task.tile_rows * 64) {
      Lanes parts[4];
#pragma GCC unroll 4
      for (size_t part = 0; part < 4; ++part) {
        parts[part] = Lanes::mul(Lanes::load(values + part * kLanes), inverse);
      }
      Ops::store_rounded(out, parts, sums);
    }
  }
  task.encoded[row] = {.scale = rotated.peak() * (1.0F / 127.0F), .sum = sums.total()};
}

}  // namespace
}  // namespace millrace
