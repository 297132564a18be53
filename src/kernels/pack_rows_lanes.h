// Packing sixteen rows. See lanes.h for the rules of this file. `Words` says how bfloat16 are
// packed on registers with 16 bits for each of kRows rows and two inputs:
//
//   Pairs load_pairs(p, stride)   pair[i]: of rows `stride` apart, in turn, inputs 2 i and 2 i + 1
//   Table(task)                   exponents and codes, in registers
//   Codes(table)                  the codes of a block's rows:
//     add<i>(pair, rests)           of pair i; puts its signs and mantissas at `rests`
//     store(codes)                  false where a weight has none
#pragma once

#include "kernels/lanes.h"
#include "kernels/pack_rows_kernel.h"

namespace millrace {
namespace {

template <class Lanes, class Out>
size_t transpose_rows_lanes(const float* rows, size_t num_columns, Out* out) {
  size_t column = 0;
  for (; column + kLanes <= num_columns; column += kLanes) {
    alignas(64) float columns[kLanes * kLanes];
    Lanes::transpose(rows + column, num_columns, columns);
    for (size_t i = 0; i < kLanes; ++i) {
      Lanes::store(out + (column + i) * kLanes, Lanes::load(columns + i * kLanes));
    }
  }
  return column;
}

template <class Words>
void pack_blocks_lanes(const PackBlocksTask& task) {
  const typename Words::Table table(task);
  for (size_t block = 0; block < task.num_columns / kPackedBlockColumns; ++block) {
    uint8_t* const codes = task.blocks + block * kPackedBlockBytes;
    bool is_packed = true;
    for (size_t row = 0; row < kLanes; row += Words::kRows) {
      const BFloat16* rows = task.rows + row * task.num_columns + block * kPackedBlockColumns;
      typename Words::Pairs pairs = Words::load_pairs(rows, task.num_columns);
      typename Words::Codes found(table);
      uint8_t* const rests = codes + kPackedCodeBytes + row * 2;
      found.template add<0>(pairs.pair[0], rests);
      found.template add<1>(pairs.pair[1], rests + kPackedPairBytes);
      found.template add<2>(pairs.pair[2], rests + 2 * kPackedPairBytes);
      found.template add<3>(pairs.pair[3], rests + 3 * kPackedPairBytes);
      is_packed &= found.store(codes + row * 4);
    }
    task.is_packed[block] = is_packed ? 1 : 0;
  }
}

}  // namespace
}  // namespace millrace
