// Parts of a matrix side by side, on a device, float32: the logits of ranks that share the output
// head.
#pragma once

#include <cstddef>

#include "cuda/stream.h"

namespace millrace::cuda {

struct JoinColumnsArgs {
  const float* parts = nullptr;  // [div_ceil(width, part_width) or more, num_rows, part_width]
  size_t part_width = 0;
  size_t num_rows = 0;
  size_t width = 0;      // what the last parts have beyond it is dropped
  float* out = nullptr;  // [num_rows, width], device; does not overlap `parts`
};

// out[row][i] = parts[i / part_width][row][i % part_width]. No rows: nothing happens.
void join_columns(StreamHandle stream, const JoinColumnsArgs& args);

}  // namespace millrace::cuda
