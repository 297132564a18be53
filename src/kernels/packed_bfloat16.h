// Sixteen rows of a bfloat16 matrix in 12 bits a weight, without loss. The weights of a matrix
// differ little in magnitude: of 256 exponents a few make up almost all. So each weight keeps its
// sign and mantissa (8 bits) and a number of 4 bits in a table of 16 exponents, chosen for the
// panel; the few with other exponents are exceptions, kept apart with their places, and zero in the
// panel.
//
// A panel:
//   [32] uint16         the exponents, in their place in a bfloat16 (bits 7 to 14), the 16 twice:
//                       the first is 0 (zero and denormals), the others the most frequent ones
//   [num_blocks] of     eight inputs each: four pairs
//     [16][2] uint16    of each row and input of a pair, its numbers in the four pairs, the first
//                       pair's in the lowest 4 bits
//     [4][16][2] uint8  of each pair, row and input of the pair: sign and mantissa
//
// Inputs past the last one have weights of zero.
//
// Processors to which the fourth part of the memory matters less than unpacking it have whole
// panels (docs/decisions/0036): the same weights, also without the exceptions, so that sums are the
// same to the bit.
//
//   [num_blocks] of     eight inputs each: four pairs
//     [4][16][2] uint16 of each pair, row and input of the pair: the weight
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/isa.h"
#include "kernels/packed_bfloat16_layout.h"
#include "tensor/dtype.h"

namespace millrace {

// Those with which this processor is faster.
[[nodiscard]] BFloat16Panels best_bfloat16_panels();

// Bytes of a panel; 64 is their common divisor.
constexpr size_t bfloat16_panel_bytes(BFloat16Panels panels, size_t num_columns) {
  const size_t num_blocks = (num_columns + kPackedBlockColumns - 1) / kPackedBlockColumns;
  return panels == BFloat16Panels::kWhole ? num_blocks * kWholeBlockBytes
                                          : kPackedTableBytes + num_blocks * kPackedBlockBytes;
}

// Writes rows, rounded to bfloat16 (to nearest, ties to even), into `panel`, and returns the
// exceptions in the order of their columns. `rows`: [1 .. 16, num_columns]; rows that are missing
// are zero. `panel`: bfloat16_panel_bytes(). The same bits with every `isa`.
std::vector<WeightException> pack_bfloat16_panel(
    BFloat16Panels panels,
    std::span<const float> rows,
    size_t num_columns,
    std::span<uint8_t> panel,
    Isa isa = best_isa()
);

// One weight of a panel; zero where an exception stands for it.
BFloat16 bfloat16_panel_weight(
    BFloat16Panels panels, const uint8_t* panel, size_t row, size_t column
);

}  // namespace millrace
