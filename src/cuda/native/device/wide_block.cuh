// What the kernels of many tokens (linear_wide.cu, linear_wide_quantized.cu) share: a block's
// warps, the tiles that it has one after the other, the ring of chunks in its shared memory, what
// follows finished sums, and what is asked of the device before a launch.
#pragma once

#include "base/math.h"
#include "cuda/kernels/linear_task.cuh"
#include "cuda/kernels/wide_tiles.h"
#include "cuda/native/cuda_check.h"
#include "wgmma.cuh"

namespace millrace::cuda {

constexpr uint32_t kGroups = 2;  // of four warps, 64 rows each
constexpr uint32_t kProductWarps = kGroups * 4;
constexpr uint32_t kCopyWarps = 4;  // the group behind them, which copies
constexpr uint32_t kThreads = (kProductWarps + kCopyWarps) * kWarpThreads;
constexpr uint32_t kPanelsOfBlock = kProductWarps;
static_assert(kPanelsOfBlock == kGroupPanels);  // wide_tiles.h
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

// Where a chunk of those that a block has, of one tile of its products after the other, lies in a
// ring of kCount stages. Counted: a division by kCount would be waited for between the products
// (decision 31).
template <uint32_t kCount>
struct RingPlace {
  uint32_t stage = 0;
  uint32_t parity = 0;  // of how many times the ring went round

  __device__ RingPlace next() const {
    const bool is_last = stage + 1 == kCount;
    return {is_last ? 0 : stage + 1, is_last ? parity ^ 1U : parity};
  }
};

// Stages of shared memory through which chunks go, filled by some threads, read by the warps that
// multiply.
template <uint32_t kCount>
class StageRing {
 public:
  using Place = RingPlace<kCount>;

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

  // By each thread that fills: until nobody reads the stage.
  __device__ void wait_for_room(const Place& place) const {
    wait_for_phase(emptied_ + place.stage, place.parity ^ 1U);
  }
  // The same; and says how many bytes the thread copies there, counted by filled().
  __device__ void begin_filling(const Place& place, uint32_t num_bytes) const {
    wait_for_room(place);
    arrive_and_expect(filled(place), num_bytes);
  }
  __device__ uint64_t* filled(const Place& place) const { return filled_ + place.stage; }

  __device__ void wait_for_chunk(const Place& place) const {
    wait_for_phase(filled(place), place.parity);
  }
  // By each warp that has read it.
  __device__ void release(const Place& place) const {
    if (lane_index() == 0) arrive(emptied_ + place.stage);
  }

 private:
  uint64_t* filled_;
  uint64_t* emptied_;
};

// A tile of a product: a block's panels times its tokens.
struct WideTile {
  uint32_t weight_group;  // of kPanelsOfBlock panels
  uint32_t first_token_tile;

  __device__ uint32_t first_panel() const { return weight_group * kPanelsOfBlock; }
  __device__ uint32_t panel() const { return first_panel() + warp_index(); }
};

// The tiles of a product that a block has, one after the other: every so manieth. Those that share
// weights are neighbours, so that blocks ask for them at the same time.
template <uint32_t kTokens>
class WideTiles {
 public:
  __device__ explicit WideTiles(const LinearTask& task)
      : num_token_blocks_(div_ceil(task.num_tokens, kTokens)),
        num_tiles_(num_token_blocks_ * div_ceil(task.num_panels, kPanelsOfBlock)) {}

  __device__ bool has_tile() const { return index_ < num_tiles_; }
  __device__ void go_on() { index_ += gridDim.x; }
  __device__ WideTile tile() const {
    const uint32_t token_block = index_ % num_token_blocks_;
    return {index_ / num_token_blocks_, token_block * (kTokens / kTileTokens)};
  }

 private:
  uint32_t num_token_blocks_;
  uint32_t num_tiles_;
  uint32_t index_ = blockIdx.x;
};

// What follows a tile's finished sums, in pieces, since there are not registers enough for all that
// they are added to. That of the next piece is under way meanwhile.
template <uint32_t kTiles>
__device__ void finish(const LinearTask& task, const WideTile& tile, float (&sums)[kTiles][4]) {
  constexpr uint32_t kPieceTiles = 8;
  constexpr uint32_t kPieces = kTiles / kPieceTiles;
  static_assert(kTiles % kPieceTiles == 0 && kGroupTokens / kTileTokens % kPieceTiles == 0);
  if (tile.panel() >= task.num_panels) return;
  const auto outputs = [&](uint32_t piece) {
    const uint32_t first_tile = tile.first_token_tile + piece * kPieceTiles;
    return PanelOutputs<kPieceTiles>(task, tile.panel(), first_tile);
  };
  float bias[2];
  outputs(0).load_bias(bias);
  const auto with_bias = [&](uint32_t piece, auto&& store) {
    float of_piece[kPieceTiles][4];
#pragma unroll
    for (uint32_t i = 0; i < kPieceTiles * 4; ++i) {
      of_piece[i / 4][i % 4] = sums[piece * kPieceTiles + i / 4][i % 4];
    }
    outputs(piece).add_bias(bias, of_piece);
    store(of_piece);
  };
  if (task.args.epilogue == LinearEpilogue::kSiluMul) {
#pragma unroll
    for (uint32_t i = 0; i < kPieces; ++i) {
      with_bias(i, [&](const auto& of_piece) { outputs(i).store_activation(of_piece); });
    }
  } else if (task.args.epilogue == LinearEpilogue::kStore) {
#pragma unroll
    for (uint32_t i = 0; i < kPieces; ++i) {
      with_bias(i, [&](const auto& of_piece) { outputs(i).store(of_piece); });
    }
  } else {
    float before[2][kPieceTiles][4];
    outputs(0).load_before(before[0]);
#pragma unroll
    for (uint32_t i = 0; i < kPieces; ++i) {
      if (i + 1 < kPieces) outputs(i + 1).load_before(before[(i + 1) % 2]);
      with_bias(i, [&](const auto& of_piece) { outputs(i).store_sums(before[i % 2], of_piece); });
    }
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

// A block for each multiprocessor, or for each tile, if these are fewer.
inline LaunchShape wide_shape(
    const LinearTask& task, uint32_t num_tokens, size_t num_shared_bytes
) {
  const size_t num_tiles = num_wide_tiles(task.num_panels, task.num_tokens, num_tokens);
  const size_t num_blocks = num_multiprocessors();
  return {
      .grid = {grid_width(num_tiles < num_blocks ? num_tiles : num_blocks)},
      .block = {kThreads},
      .num_shared_bytes = num_shared_bytes};
}

}  // namespace millrace::cuda
