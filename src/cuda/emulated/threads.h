// A CUDA device's threads on the processor, for tests: a launch runs its blocks one after another,
// each thread of a block as a fiber that runs until it waits for its warp or its block. So the
// order is always the same, and a kernel whose threads never wait runs as a plain loop.
//
// What a device would answer with undefined results is caught, by CHECK with one line: a barrier
// or an exchange that not all threads reach, or that they reach at different places of the source;
// an exchange in a warp of fewer than 32 threads; shared memory beyond what was asked for (reads as
// well under AddressSanitizer). Shared memory begins as NaN in every block. A missing barrier is
// not seen by itself: run the kernel in both orders of threads and compare the bits.
//
// Launches of a process run one at a time, whatever thread they come from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "cuda/launch_shape.h"

namespace millrace::cuda::emulated {

// Where the running thread is; what CUDA's built-in variables say.
struct Place {
  Dim3 thread;
  Dim3 block;
  Dim3 block_shape;
  Dim3 grid_shape;
};
extern Place place;

// Runs `body` once for every thread of the grid, and returns when all are done.
// REQUIRES: not called by a kernel.
void run_grid(const LaunchShape& shape, const std::function<void()>& body);

// Where a kernel calls a function that takes one by default. (clang-tidy 14 knows no
// std::source_location.)
struct SourceLine {
  const char* file = "";
  int line = 0;

  static SourceLine of_caller(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

// Which thread of a block starts first. For tests that look for missing barriers.
enum class ThreadOrder { kAscending, kDescending };
void set_thread_order(ThreadOrder order);

// The functions below are called by kernels' threads.

// Goes on when every thread of the block has come here.
void meet_block(const SourceLine& where);

// What the lanes of a warp bring to an exchange, in lane order.
using LaneOperands = std::array<void*, kWarpThreads>;

// Goes on when all 32 threads of the warp have come here; the last one of them calls
// exchange(operands), which reads and writes what each lane's `operand` points to.
void meet_warp(const SourceLine& where, void* operand, void (*exchange)(LaneOperands&));

// Elements [offset_bytes, + num_bytes) of the block's dynamic shared memory.
void* shared_memory(size_t offset_bytes, size_t num_bytes, size_t alignment);

// What the emulator did since the process began.
struct Counts {
  uint64_t num_blocks = 0;
  uint64_t num_threads = 0;
  uint64_t num_waits = 0;   // times that a thread gave way to another
  uint64_t num_fibers = 0;  // made; each has a stack, and is used again
};
Counts counts();

}  // namespace millrace::cuda::emulated
