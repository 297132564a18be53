// What the kernels of many tokens (linear_wide.cu, linear_wide_quantized.cu) share: a block's
// warps, the ring of chunks in its shared memory, what follows finished sums, and what is asked of
// the device before a launch.
#pragma once

#include "base/math.h"
#include "cuda/kernels/linear_task.cuh"
#include "cuda/native/cuda_check.h"
#include "wgmma.cuh"

namespace millrace::cuda {

constexpr uint32_t kGroups = 2;  // of four warps, 64 rows each
constexpr uint32_t kProductWarps = kGroups * 4;
constexpr uint32_t kCopyWarps = 4;  // the group behind them, which copies
constexpr uint32_t kThreads = (kProductWarps + kCopyWarps) * kWarpThreads;
constexpr uint32_t kPanelsOfBlock = kProductWarps;
// Steps with fewer tokens are as fast in linear.cu, which needs as many passes over the weights as
// there are 32 tokens.
constexpr size_t kTokensMin = kFewTokens + 1;

constexpr uint32_t kTileBytes = kTileChunkElements * 2;  // of a chunk
// From a step's cores to the next one's, in sixteens of bytes: of token descriptors.
constexpr uint32_t kDescriptorStep = 2 * kCoreElements * 2 / 16;

// Of a ring of kCount stages: for each when it is filled, and when it is free again.
constexpr size_t ring_bytes(uint32_t count) {
  return size_t{count} * 2 * sizeof(uint64_t);
}

#if MILLRACE_HAS_WGMMA

// Registers of a thread: of those that copy, and of those that multiply. 65,536 in all.
constexpr uint32_t kCopyRegisters = 40;
constexpr uint32_t kProductRegisters = 232;

// Stages of shared memory through which chunks go, filled by some threads, read by the warps that
// multiply. Chunk c has stage c % kCount.
template <uint32_t kCount>
class StageRing {
 public:
  // `offset_bytes`: of ring_bytes() in shared memory.
  __device__ explicit StageRing(size_t offset_bytes)
      : filled_(dynamic_shared<uint64_t>(offset_bytes, 2 * kCount)), emptied_(filled_ + kCount) {}

  // By one thread, before the block's barrier. `num_fillers`: threads that fill a stage together.
  __device__ void create(uint32_t num_fillers) const {
    for (uint32_t i = 0; i < kCount; ++i) {
      create_barrier(filled_ + i, num_fillers);
      create_barrier(emptied_ + i, kProductWarps);
    }
    publish_barriers();
  }

  __device__ static uint32_t stage_of(size_t chunk) {
    return static_cast<uint32_t>(chunk % kCount);
  }

  // By each thread that fills: waits until nobody reads the chunk's stage, and says how many bytes
  // it copies there, counted by the barrier that it gets.
  __device__ uint64_t* begin_filling(size_t chunk, uint32_t num_bytes) const {
    uint64_t* const filled = filled_ + stage_of(chunk);
    wait_for_phase(emptied_ + stage_of(chunk), parity_of(chunk) ^ 1U);
    arrive_and_expect(filled, num_bytes);
    return filled;
  }

  __device__ void wait_for_chunk(size_t chunk) const {
    wait_for_phase(filled_ + stage_of(chunk), parity_of(chunk));
  }
  // By each warp that has read it.
  __device__ void release(size_t chunk) const {
    if (lane_index() == 0) arrive(emptied_ + stage_of(chunk));
  }

 private:
  __device__ static uint32_t parity_of(size_t chunk) {
    return static_cast<uint32_t>(chunk / kCount) & 1U;
  }

  uint64_t* filled_;
  uint64_t* emptied_;
};

// In pieces, since there are not registers enough for all that the sums are added to.
template <uint32_t kTiles>
__device__ void finish(const LinearTask& task, uint32_t panel, float (&sums)[kTiles][4]) {
  constexpr uint32_t kAtOnce = 8;
#pragma unroll
  for (uint32_t first = 0; first < kTiles; first += kAtOnce) {
    const PanelOutputs<kAtOnce> outputs(task, panel, blockIdx.x * kTiles + first);
    float piece[kAtOnce][4];
    float before[kAtOnce][4];
    float bias[2];
    outputs.load_bias(bias);
#pragma unroll
    for (uint32_t i = 0; i < kAtOnce * 4; ++i) piece[i / 4][i % 4] = sums[first + i / 4][i % 4];
    if (task.args.epilogue == LinearEpilogue::kAddToOut) outputs.load_before(before);
    outputs.finish(bias, before, piece);
  }
}

#endif  // MILLRACE_HAS_WGMMA

// Of the device at hand; asked once, as all devices of a process are alike.
inline int device_attribute(cudaDeviceAttr which) {
  int index = 0;
  int value = 0;
  check_cuda(cudaGetDevice(&index), "cudaGetDevice");
  check_cuda(cudaDeviceGetAttribute(&value, which, index), "cudaDeviceGetAttribute");
  return value;
}
inline bool is_hopper() {
  static const bool is_one = device_attribute(cudaDevAttrComputeCapabilityMajor) == 9;
  return is_one;
}
inline uint32_t num_multiprocessors() {
  static const int count = device_attribute(cudaDevAttrMultiProcessorCount);
  return static_cast<uint32_t>(count);
}

// How long a device takes for blocks of that many tokens, of which each takes `of_block`: blocks
// come in rounds of one for each multiprocessor.
inline size_t wide_cost(const LinearTask& task, size_t num_tokens, size_t of_block) {
  const size_t num_blocks = div_ceil(task.args.num_tokens, num_tokens) *
                            div_ceil(size_t{task.num_panels}, size_t{kPanelsOfBlock});
  return div_ceil(num_blocks, size_t{num_multiprocessors()}) * of_block;
}

}  // namespace millrace::cuda
