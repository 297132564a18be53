// How many threads run a kernel, and what they share. CUDA-free: the same value goes to a device
// and to the emulator.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"

namespace millrace::cuda {

struct Dim3 {
  uint32_t x = 1;
  uint32_t y = 1;
  uint32_t z = 1;

  friend bool operator==(const Dim3&, const Dim3&) = default;
};

struct LaunchShape {
  Dim3 grid;                    // blocks
  Dim3 block;                   // threads of a block
  size_t num_shared_bytes = 0;  // dynamic shared memory of a block

  // May start before the previous kernel of the stream has ended: programmatic dependent launch.
  // REQUIRES: every thread of the kernel calls wait_for_previous_kernel() before it touches
  // anything that an earlier kernel reads or writes. What was copied before the first of them may
  // be read ahead of that: kernels overlap kernels only, never copies. So may what was written
  // before a kernel in between that waits, and only then lets the next one start: all of a step
  // before, as embed() is such a kernel and each step's first.
  bool overlaps_previous = true;
};

// What a block can have on every device that a build is for; compute capability 9.0 (CUDA C++
// Programming Guide, "Technical Specifications per Compute Capability"). One of 8.0 has 163 KiB of
// shared memory, one of 8.6 and 8.9 99 KiB: there a larger launch fails with CUDA's own error.
constexpr uint32_t kWarpThreads = 32;
constexpr uint32_t kBlockThreadsMax = 1024;
constexpr uint32_t kBlockDepthMax = 64;
constexpr uint32_t kGridWidthMax = 0x7FFFFFFF;
constexpr uint32_t kGridHeightMax = 65535;  // and depth
constexpr size_t kSharedBytesMax = size_t{227} * 1024;

inline void check_launch_shape(const LaunchShape& shape) {
  const Dim3& block = shape.block;
  const Dim3& grid = shape.grid;
  CHECK(block.x > 0 && block.y > 0 && block.z > 0, "a block has threads");
  CHECK(block.x <= kBlockThreadsMax && block.y <= kBlockThreadsMax, "a block has 1024 threads");
  CHECK(block.z <= kBlockDepthMax, "a block is at most 64 deep");
  CHECK(block.x * block.y * block.z <= kBlockThreadsMax, "a block has at most 1024 threads");
  CHECK(grid.x > 0 && grid.y > 0 && grid.z > 0, "a grid has blocks");
  CHECK(grid.x <= kGridWidthMax, "a grid is at most 2^31 - 1 blocks wide");
  CHECK(grid.y <= kGridHeightMax && grid.z <= kGridHeightMax, "a grid is at most 65535 high, deep");
  CHECK(shape.num_shared_bytes <= kSharedBytesMax, "a block has at most 227 KiB of shared memory");
}

}  // namespace millrace::cuda
