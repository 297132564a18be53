// What packed_matrix.cpp and packed_bfloat16.cpp ask of each instruction set: sixteen rows put in
// the places that kernels read. Plain data only (lanes.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/packed_bfloat16_layout.h"
#include "tensor/dtype.h"

namespace millrace {

// Exponents that lie side by side; those of nearly all weights of a panel do.
constexpr size_t kExponentWindow = 16;

struct PackBlocksTask {
  const BFloat16* rows;            // [16][num_columns]
  size_t num_columns;              // a multiple of 8
  const uint8_t* table;            // of the panel: kPackedTableBytes
  unsigned first_exponent;         // of the window, at least 1
  uint8_t codes[kExponentWindow];  // of its exponents; 0 of those that the table lacks
  uint8_t* blocks;                 // out: [num_columns / 8] of kPackedBlockBytes
  uint8_t* is_packed;              // out: [num_columns / 8], 0 where a weight of the block has
                                   // an exponent that is neither 0 nor coded: its bytes are void
};
void pack_blocks_avx2(const PackBlocksTask& task);
void pack_blocks_avx512(const PackBlocksTask& task);

// Columns of [16][num_columns] rows, sixteen at a time, rounded into `out`: [num_columns][16].
// Returns how many columns it put there, all but fewer than sixteen. Out: float or Float16.
template <class Out>
size_t transpose_rows_avx2(const float* rows, size_t num_columns, Out* out);
template <class Out>
size_t transpose_rows_avx512(const float* rows, size_t num_columns, Out* out);

}  // namespace millrace
