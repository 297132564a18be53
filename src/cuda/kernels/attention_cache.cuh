// Where a block that attends to a split finds its keys and values. A source has stage(split),
// called by the whole block once cache rows were found, a barrier ago; stage_values(), by each
// thread that has done with its keys; wait(), before keys and before values; key() and value(),
// what a lane multiplies: zeros where nothing is seen. A split's work is shared by warps so that a
// lane asks for the same pieces whatever the source: a warp has 32 positions' scores, and some
// pieces of 64 positions by 64 dimensions of the values.
#pragma once

#include "cuda/kernels/attention_tile.cuh"

namespace millrace::cuda {

constexpr uint32_t kWarpPositions = kSplit / kSplitWarps;  // of scores
constexpr uint32_t kScoreTiles = kWarpPositions / 8;
constexpr uint32_t kPieceSteps = kPiece / 16;  // of 16 positions, as deep as a product
constexpr uint32_t kStepDimensions = 32;       // of a key, that two products take

__device__ inline uint32_t num_key_steps(const TileTask& task) {
  return (task.head_dim() + kStepDimensions - 1) / kStepDimensions;
}

// Eight dimensions of a key, in row order of multiply_fragments()' second operand.
struct KeyPlace {
  uint32_t position;  // of the split
  uint32_t dimension;

  __device__ KeyPlace(uint32_t step, uint32_t tile)
      : position(warp_index() * kWarpPositions + tile * 8 + lane_index() / 4),
        dimension(step * kStepDimensions + lane_index() % 4 * kWordElements) {}
};

// Eight dimensions of a value: depth 2t, 2t + 1, 2t + 8, 2t + 9 of a step are four neighbours.
struct ValuePlace {
  uint32_t position;
  uint32_t dimension;

  __device__ ValuePlace(uint32_t chunk, uint32_t piece, uint32_t step, uint32_t i)
      : position(piece * kPiece + step * 16 + lane_index() % 4 * 4 + i),
        dimension(chunk * kChunk + lane_index() / 4 * kWordElements) {}
};

// Straight from the cache.
class DirectCache {
 public:
  __device__ DirectCache(const TileTask& task, bool /*has_fresh*/) : task_(task) {}

  __device__ void stage(uint32_t split) { split_ = split; }
  __device__ void stage_values() const {}
  __device__ void wait() const {}

  __device__ Words4 key(uint32_t step, uint32_t tile) const {
    const KeyPlace place(step, tile);
    return load(task_.keys(), place.position, place.dimension);
  }
  __device__ Words4 value(uint32_t chunk, uint32_t piece, uint32_t step, uint32_t i) const {
    const ValuePlace place(chunk, piece, step, i);
    return load(task_.values(), place.position, place.dimension);
  }

 private:
  __device__ Words4 load(const BFloat16Bits* from, uint32_t position, uint32_t dimension) const {
    if (position >= task_.num_seen(split_)) return {};
    return load_elements(
        from + size_t{task_.cache_rows()[position]} * task_.head_dim(),
        dimension,
        task_.head_dim(),
        task_.is_whole()
    );
  }

  const TileTask& task_;
  uint32_t split_ = 0;
};

// Copied to shared memory, all of a split at once; values after keys where they have one place. A
// lane copies what it asks for itself, so there is no barrier. The last position may be new, and
// not in the cache before the kernel writes it there: it is taken from TileTask::fresh_row().
// REQUIRES: TileMemory::is_staged().
class StagedCache {
 public:
  __device__ StagedCache(const TileTask& task, bool has_fresh)
      : task_(task),
        has_fresh_(has_fresh),
        has_one_place_(TileMemory::has_one_place(task.head_dim())) {}

  __device__ void stage(uint32_t split) {
    num_seen_ = task_.num_seen(split);
    fresh_ = has_fresh_ && split + 1 == task_.num_splits() ? num_seen_ - 1 : kSplit;
    for (uint32_t step = 0; step < num_key_steps(task_); ++step) {
#pragma unroll
      for (uint32_t tile = 0; tile < kScoreTiles; ++tile) {
        const KeyPlace place(step, tile);
        copy(staged_key(step, tile), task_.keys(), place.position, place.dimension);
      }
    }
    if (!has_one_place_) copy_values();
    end_copies();
  }
  __device__ void stage_values() const {
    if (has_one_place_) copy_values();
    end_copies();
  }
  __device__ void wait() const {
    wait_for_copies<0>();
  }

  __device__ Words4 key(uint32_t step, uint32_t tile) const {
    const KeyPlace place(step, tile);
    return load(staged_key(step, tile), false, place.position, place.dimension);
  }
  __device__ Words4 value(uint32_t chunk, uint32_t piece, uint32_t step, uint32_t i) const {
    const ValuePlace place(chunk, piece, step, i);
    const Words4* const from = staged_value(chunk * kPieces + piece, step * 4 + i);
    return load(from, true, place.position, place.dimension);
  }

 private:
  // A warp's keys lie together, where its values come to: see TileMemory::has_one_place().
  __device__ Words4* staged_key(uint32_t step, uint32_t tile) const {
    static_assert(kSplitWarps == 2 * kPieces);
    const uint32_t first = warp_index() * (task_.num_chunks() * 2 * kScoreTiles);
    return task_.staged_keys() + (first + step * kScoreTiles + tile) * kWarpThreads + lane_index();
  }
  __device__ Words4* staged_value(uint32_t unit, uint32_t i) const {
    return task_.staged_values() + (unit * kPieceSteps * 4 + i) * kWarpThreads + lane_index();
  }

  __device__ void copy_values() const {
    for (uint32_t unit = warp_index(); unit < task_.num_chunks() * kPieces; unit += kSplitWarps) {
      const uint32_t chunk = unit / kPieces;
      const uint32_t piece = unit % kPieces;
#pragma unroll
      for (uint32_t i = 0; i < kPieceSteps * 4; ++i) {
        const ValuePlace place(chunk, piece, i / 4, i % 4);
        copy(staged_value(unit, i), task_.values(), place.position, place.dimension);
      }
    }
  }

  __device__ void copy(Words4* to, const BFloat16Bits* from, uint32_t position, uint32_t dimension)
      const {
    if (position >= num_seen_ || position == fresh_ || dimension >= task_.head_dim()) return;
    copy_words(to, from + size_t{task_.cache_rows()[position]} * task_.head_dim() + dimension);
  }
  __device__ Words4
  load(const Words4* staged, bool is_value, uint32_t position, uint32_t dimension) const {
    if (position >= num_seen_ || dimension >= task_.head_dim()) return {};
    return position == fresh_ ? load_words(task_.fresh_row(is_value) + dimension)
                              : load_words(staged);
  }

  const TileTask& task_;
  bool has_fresh_;
  bool has_one_place_;
  uint32_t num_seen_ = 0;    // of the split
  uint32_t fresh_ = kSplit;  // the position in the split; none: beyond
};

}  // namespace millrace::cuda
