// What every operator asks of its arguments before a launch. CUDA-free.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "cuda/launch_shape.h"

namespace millrace::cuda {

// Kernels load and store sixteen bytes at once.
inline bool is_aligned(const void* memory) {
  return reinterpret_cast<uintptr_t>(memory) % 16 == 0;
}

// A number of blocks in x, or in y and z. REQUIRES: that a device takes as many.
inline uint32_t grid_width(size_t num_blocks) {
  CHECK(num_blocks > 0 && num_blocks <= kGridWidthMax, "a grid's width");
  return static_cast<uint32_t>(num_blocks);
}
inline uint32_t grid_height(size_t num_blocks) {
  CHECK(num_blocks > 0 && num_blocks <= kGridHeightMax, "a grid's height");
  return static_cast<uint32_t>(num_blocks);
}

}  // namespace millrace::cuda
