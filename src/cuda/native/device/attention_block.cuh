// What a block of paged_attention_wide() (attention_wide.cu) has in its shared memory, which tiles
// it has, and who brings it keys and values.
#pragma once

#include "attention_products.cuh"
#include "cuda/kernels/attention_tile.cuh"
#include "wide_block.cuh"

namespace millrace::cuda {

constexpr uint32_t kGroupRows = 64;
constexpr uint32_t kStagePositions = 128;
constexpr uint32_t kHalves = kSplit / kStagePositions;
static_assert(kGroups * kGroupRows == kWideAttentionRows);

// What a block has in shared memory: stages of keys or values, the queries, the outputs so far, for
// which there are no registers, the ring's barriers. Eight positions, or rows, by eight dimensions
// are a core; a row of cores lies together.
template <uint32_t kHeadDim>
struct AttentionBlock {
  static constexpr uint32_t kCoreBytes = 128;
  static constexpr uint32_t kCoreRowBytes = kHeadDim / 8 * kCoreBytes;
  static constexpr uint32_t kStageBytes = kStagePositions / 8 * kCoreRowBytes;
  static constexpr uint32_t kChunks = kHeadDim / kChunk;
  static constexpr uint32_t kCount = kHeadDim == 64 ? 8 : 4;
  static constexpr size_t kQueriesBegin = size_t{kCount} * kStageBytes;
  static constexpr size_t kOutputsBegin = kQueriesBegin + kWideAttentionRows / 8 * kCoreRowBytes;
  static constexpr size_t kRingBegin =
      kOutputsBegin + kWideAttentionRows * kHeadDim * sizeof(float);
  static constexpr size_t kNumBytes = kRingBegin + ring_bytes(kCount);
};

#if MILLRACE_HAS_WGMMA

// What a block attends to, one after the other: in one round so manieth, in the next from the other
// end, so that who had most has least. Those of no rows come last.
class AttentionItems {
 public:
  __device__ explicit AttentionItems(const PagedAttentionArgs& args) : args_(args) { find(); }

  __device__ bool has_item() const { return tile_.num_rows > 0; }
  __device__ void go_on() {
    ++round_;
    find();
  }
  // Rows [first, first + count) of the tile, as far as they are there.
  __device__ TileTask task(uint32_t first, uint32_t count) const {
    const auto num_rows = static_cast<uint32_t>(tile_.num_rows);
    const uint32_t num_left = num_rows > first ? num_rows - first : 0;
    const AttentionTile rows = {
        tile_.sequence,
        tile_.first_row + static_cast<int32_t>(first),
        static_cast<int32_t>(num_left < count ? num_left : count)};
    return {args_, rows, kv_head_};
  }

 private:
  __device__ void find() {
    const auto num_kv_heads = static_cast<uint32_t>(args_.cache.num_kv_heads);
    const uint32_t place = round_ % 2 == 0 ? blockIdx.x : gridDim.x - 1 - blockIdx.x;
    const uint32_t index = round_ * gridDim.x + place;
    const bool is_there = index / num_kv_heads < args_.num_tiles;
    tile_ = is_there ? args_.tiles[index / num_kv_heads] : AttentionTile{};
    kv_head_ = index % num_kv_heads;
  }

  const PagedAttentionArgs& args_;
  uint32_t round_ = 0;
  AttentionTile tile_;
  uint32_t kv_head_;
};

// Halves of a split that begins at `begin` and of which positions below `end` are seen.
__device__ inline uint32_t num_halves(uint32_t begin, uint32_t end) {
  return end - begin > kStagePositions ? kHalves : 1;
}

// By the group that copies. A warp has 32 positions of a stage.
template <uint32_t kHeadDim>
class CacheLoader {
 public:
  using Block = AttentionBlock<kHeadDim>;
  using Place = RingPlace<Block::kCount>;

  __device__ CacheLoader(const PagedAttentionArgs& args, const StageRing<Block::kCount>& ring)
      : args_(args), ring_(ring) {}

  __device__ void run(AttentionItems items) {
    for (; items.has_item(); items.go_on()) {
      const TileTask task = items.task(0, kWideAttentionRows);
      end_ = task.last_position() + 1;
      uint32_t next_rows[kHalves];
      find_rows(task, 0, next_rows);
      wait_for_previous_kernel();
      for (uint32_t begin = 0; begin < end_; begin += kSplit) {
        uint32_t rows[kHalves];
#pragma unroll
        for (uint32_t i = 0; i < kHalves; ++i) rows[i] = next_rows[i];
        find_rows(task, begin + kSplit, next_rows);  // ahead of time: the block table may be far
        const uint32_t count = num_halves(begin, end_);
        copy_keys(rows[0]);
        if (count > 1) copy_keys(rows[1]);
        copy_values(rows[0], begin);
        if (count > 1) copy_values(rows[1], begin + kStagePositions);
      }
    }
    finish_values<0>();
  }

 private:
  static constexpr uint32_t kWarpCoreRows = kStagePositions / 8 / kCopyWarps;
  static constexpr uint32_t kUnits = kWarpCoreRows * kHeadDim / 32;  // of four cores
  static constexpr uint32_t kUnitsAtOnce = 4;
  static_assert(kUnits % kUnitsAtOnce == 0);

  __device__ static uint32_t warp() {
    return warp_index() - kProductWarps;
  }

  // Of the lane's position of either half; beyond the last that is seen, of the last.
  __device__ void find_rows(const TileTask& task, uint32_t begin, uint32_t (&rows)[kHalves]) const {
#pragma unroll
    for (uint32_t i = 0; i < kHalves; ++i) {
      const uint32_t position = begin + i * kStagePositions + warp() * kWarpThreads + lane_index();
      rows[i] = task.cache_row(position < end_ ? position : end_ - 1);
    }
  }

  // Of a warp's 32 positions: which one is row `row` of the warp's core row `core_row`.
  __device__ static uint32_t position_of(uint32_t core_row, uint32_t row) {
    return core_row / 2 * 16 + row / 2 * 4 + core_row % 2 * 2 + row % 2;
  }
  __device__ unsigned char* core_row(uint32_t i) const {
    return dynamic_shared<unsigned char>(
        place_.stage * Block::kStageBytes + (warp() * kWarpCoreRows + i) * Block::kCoreRowBytes,
        Block::kCoreRowBytes
    );
  }

  // Through registers, as two products take every other two dimensions of 32: linear.h.
  __device__ void copy_keys(uint32_t rows) {
#pragma unroll
    for (uint32_t first = 0; first < kUnits; first += kUnitsAtOnce) {
      Words4 words[kUnitsAtOnce];
#pragma unroll
      for (uint32_t i = 0; i < kUnitsAtOnce; ++i) {
        const uint32_t unit = first + i;
        const uint32_t row = shuffle(rows, position_of(unit / (kHeadDim / 32), lane_index() / 4));
        const uint32_t dimension = unit % (kHeadDim / 32) * 32 + lane_index() % 4 * 8;
        words[i] = load_words(args_.cache.keys + size_t{row} * kHeadDim + dimension);
      }
      if (first == 0) {
        finish_values<0>();
        ring_.wait_for_room(place_);
      }
#pragma unroll
      for (uint32_t i = 0; i < kUnitsAtOnce; ++i) {
        const uint32_t unit = first + i;
        unsigned char* const to = core_row(unit / (kHeadDim / 32));
        store_cores(to + unit % (kHeadDim / 32) * (4 * Block::kCoreBytes), words[i]);
      }
    }
    publish_to_products();
    arrive(ring_.filled(place_));
    place_ = place_.next();
  }

  // `begin`: of the stage.
  __device__ void copy_values(uint32_t rows, uint32_t begin) {
    ring_.wait_for_room(place_);
    const uint32_t first_position = begin + warp() * kWarpThreads;
#pragma unroll
    for (uint32_t i = 0; i < kWarpCoreRows; ++i) {
      const uint32_t position = position_of(i, lane_index() % 8);
      const uint32_t row = shuffle(rows, position);
      const bool is_seen = first_position + position < end_;
#pragma unroll
      for (uint32_t first = 0; first < kHeadDim / 8; first += 4) {
        const uint32_t core = first + lane_index() / 8;
        copy_or_clear(
            core_row(i) + core * Block::kCoreBytes + lane_index() % 8 * 16,
            args_.cache.values + size_t{row} * kHeadDim + core * 8,
            is_seen
        );
      }
    }
    end_copies();
    finish_values<1>();
    values_place_ = place_;
    has_values_ = true;
    place_ = place_.next();
  }

  // The values that are on their way, but the last so many sets.
  template <uint32_t kSetsLeft>
  __device__ void finish_values() {
    if (!has_values_) return;
    wait_for_copies<kSetsLeft>();
    publish_to_products();
    arrive(ring_.filled(values_place_));
    has_values_ = false;
  }

  const PagedAttentionArgs& args_;
  const StageRing<Block::kCount>& ring_;
  Place place_;
  Place values_place_;
  bool has_values_ = false;
  uint32_t end_ = 0;  // of the positions that the tile sees
};

#endif  // MILLRACE_HAS_WGMMA

}  // namespace millrace::cuda
