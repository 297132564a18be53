// Matrices on their way into the layout that linear() multiplies (operand_tiles.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/stream.h"

namespace millrace::cuda {

// Where rows go within a packed matrix.
enum class RowPlaces {
  kFollowing,  // one below the other
  kGate,       // the upper halves of panels: row r to row r % 8 of panel r / 8
  kUp,         // the lower halves
};

struct PackWeightsArgs {
  const uint16_t* rows = nullptr;  // [num_rows, num_inputs], device, bfloat16, row-major
  size_t num_rows = 0;
  size_t num_inputs = 0;
  RowPlaces places = RowPlaces::kFollowing;
  size_t first_row = 0;        // what row 0 is counted as: of the matrix, or of its gate or its up
  uint16_t* packed = nullptr;  // device
};

// Padding is left as it is: whoever takes the memory fills it with zeros. No rows: nothing happens.
void pack_weights(StreamHandle stream, const PackWeightsArgs& args);

}  // namespace millrace::cuda
