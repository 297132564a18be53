#include <algorithm>
#include <functional>

#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/attention_merge.cuh"
#include "cuda/kernels/attention_split.cuh"
#include "cuda/kernels/fresh_heads.cuh"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/paged_attention.h"

namespace millrace::cuda {
namespace {

// What a split of a tile leaves: maxima, sums, outputs.
struct PartialView {
  float* memory;
  uint32_t head_dim;

  __device__ float& maximum(uint32_t row) const { return memory[row]; }
  __device__ float& sum(uint32_t row) const { return memory[kRows + row]; }
  __device__ float& output(uint32_t row, uint32_t dimension) const {
    return memory[2 * kRows + row * head_dim + dimension];
  }
};

__host__ __device__ size_t partial_size(size_t head_dim) {
  return kRows * (2 + head_dim);
}

__device__ PartialView
partial_of(const PagedAttentionArgs& args, const AttentionPartials& partials, uint32_t split) {
  const size_t tile = static_cast<size_t>(blockIdx.x) * args.cache.num_kv_heads + blockIdx.y;
  const size_t index = tile * partials.num_splits_max + split;
  const size_t head_dim = args.cache.head_dim;
  return {partials.memory + index * partial_size(head_dim), static_cast<uint32_t>(head_dim)};
}

// What a split leaves: rows that see nothing of it leave nothing. Of the only split: the result.
template <class Cache>
__device__ void attend_partially(
    const PagedAttentionArgs& args,
    const TileTask& task,
    uint32_t split,
    const Cache& cache,
    const PartialView& partial
) {
  const bool is_only = task.num_splits() == 1;
  attend_split(
      task,
      split,
      cache,
      [&] {
        const uint32_t row = threadIdx.x;
        if (is_only || row >= kRows || !task.has_row(row, split)) return;
        partial.maximum(row) = task.maxima()[row];
        partial.sum(row) = task.sums()[row];
      },
      [&](uint32_t row, uint32_t dimension, float value) {
        if (is_only) {
          args.out[task.out_element(row, dimension)] = finished(value, task.sums()[row]);
        } else {
          partial.output(row, dimension) = value;
        }
      }
  );
}

// What all splits left of a row.
struct RowPartials {
  PartialView first;
  uint32_t row;
  uint32_t num_splits;

  __device__ PartialView of_split(uint32_t split) const {
    return {first.memory + split * partial_size(first.head_dim), first.head_dim};
  }
};

// How lane i of a warp has split first + i merged with all before.
struct LaneMerge {
  float maximum;  // of all up to this split
  MergeFactors factors;
  float sum;  // of this split alone
};

// `before`: the maximum of the splits before `first`, if there are any. A lane beyond the last
// split takes the last again, which changes no maximum.
__device__ LaneMerge lane_merge(const RowPartials& partials, uint32_t first, float before) {
  const uint32_t split = first + lane_index();
  const PartialView partial =
      partials.of_split(split < partials.num_splits ? split : partials.num_splits - 1);
  const float own = partial.maximum(partials.row);
  const float sum = partial.sum(partials.row);
  float maximum = first == 0 ? own : larger(before, own);
  for (uint32_t distance = 1; distance < kWarpThreads; distance *= 2) {
    const bool has_other = lane_index() >= distance;
    const float other = shuffle(maximum, has_other ? lane_index() - distance : lane_index());
    maximum = larger(other, maximum);
  }
  const float previous = shuffle(maximum, lane_index() > 0 ? lane_index() - 1 : 0);
  const bool has_previous = lane_index() > 0 || first == 0;
  return {maximum, merge_factors(has_previous ? previous : before, own), sum};
}

constexpr uint32_t kLaneDimensions = kHeadDimMax / kWarpThreads;
constexpr uint32_t kMergedAtOnce = 4;  // splits, whose outputs are under way together

// Lane i has dimensions i, i + 32, ... of some splits.
struct LaneOutputs {
  float values[kMergedAtOnce][kLaneDimensions];
};

__device__ void load_outputs(const RowPartials& partials, uint32_t first, LaneOutputs& outputs) {
#pragma unroll
  for (uint32_t s = 0; s < kMergedAtOnce; ++s) {
    const PartialView partial = partials.of_split(first + s);
    const float* const outputs_of_lane = &partial.output(partials.row, lane_index());
#pragma unroll
    for (uint32_t i = 0; i < kLaneDimensions; ++i) {
      const bool is_there =
          first + s < partials.num_splits && i * kWarpThreads + lane_index() < partial.head_dim;
      outputs.values[s][i] = is_there ? outputs_of_lane[i * kWarpThreads] : 0.0F;
    }
  }
}

// Of a row, in ascending order of splits, by a warp.
struct MergedRow {
  float sum = 0.0F;
  float outputs[kLaneDimensions] = {};
};

__device__ MergedRow merge_row(const RowPartials& partials) {
  MergedRow merged;
  float maximum = 0.0F;
  for (uint32_t first = 0; first < partials.num_splits; first += kWarpThreads) {
    LaneOutputs values;
    load_outputs(partials, first, values);
    const LaneMerge lanes = lane_merge(partials, first, maximum);
    const uint32_t num_left = partials.num_splits - first;
    const uint32_t num_lanes = num_left < kWarpThreads ? num_left : kWarpThreads;
    for (uint32_t lane = 0; lane < num_lanes; lane += kMergedAtOnce) {
      if (lane > 0) load_outputs(partials, first + lane, values);
#pragma unroll
      for (uint32_t s = 0; s < kMergedAtOnce; ++s) {
        if (lane + s >= num_lanes) break;
        const bool is_first = first + lane + s == 0;
        const MergeFactors factors = {
            0.0F, shuffle(lanes.factors.keep, lane + s), shuffle(lanes.factors.add, lane + s)};
        const float sum = shuffle(lanes.sum, lane + s);
        merged.sum = is_first ? sum : merge(factors, merged.sum, sum);
#pragma unroll
        for (uint32_t i = 0; i < kLaneDimensions; ++i) {
          const float value = values.values[s][i];
          merged.outputs[i] = is_first ? value : merge(factors, merged.outputs[i], value);
        }
      }
    }
    maximum = shuffle(lanes.maximum, kWarpThreads - 1);
  }
  return merged;
}

__device__ void merge_splits(
    const PagedAttentionArgs& args, const TileTask& task, const AttentionPartials& partials
) {
  for (uint32_t row = warp_index(); row < task.num_rows(); row += kSplitWarps) {
    const uint32_t num_splits = task.position_of(row) / kSplit + 1;
    const MergedRow merged = merge_row({partial_of(args, partials, 0), row, num_splits});
    const size_t token = task.token_of(row);
    const size_t begin = task.head_of(row) * task.head_dim();
    const size_t width = args.num_heads * task.head_dim();
#pragma unroll
    for (uint32_t i = 0; i < kLaneDimensions; ++i) {
      const uint32_t dimension = i * kWarpThreads + lane_index();
      if (dimension >= task.head_dim()) continue;
      args.out[token_element(token, begin + dimension, width, args.num_tokens)] =
          finished(merged.outputs[i], merged.sum);
    }
  }
}

// Whether all that is to be merged is there: for the last of a tile's and KV head's blocks.
// REQUIRES: a barrier since the block left something.
__device__ bool is_last_of_tile(
    const PagedAttentionArgs& args, const TileTask& task, const AttentionPartials& partials
) {
  if (threadIdx.x == 0) {
    const size_t tile = static_cast<size_t>(blockIdx.x) * args.cache.num_kv_heads + blockIdx.y;
    const uint32_t num_blocks = task.num_splits() < gridDim.z ? task.num_splits() : gridDim.z;
    *task.shared_word() = is_last_block(partials.counters + tile, num_blocks) ? 1 : 0;
  }
  sync_block();
  return *task.shared_word() != 0;
}

// The block's splits, of which the first one was staged; and the result, by the block that has the
// last.
template <class Cache>
__device__ void attend_splits(
    const PagedAttentionArgs& args,
    const TileTask& task,
    const AttentionPartials& partials,
    Cache& cache
) {
  for (uint32_t split = blockIdx.z; split < task.num_splits(); split += gridDim.z) {
    if (split != blockIdx.z) {
      task.find_cache_rows(split);
      sync_block();
      cache.stage(split);
    }
    sync_block();
    attend_partially(args, task, split, cache, partial_of(args, partials, split));
  }
  if (task.num_splits() == 1) return;
  sync_block();
  if (is_last_of_tile(args, task, partials)) merge_splits(args, task, partials);
}

// Of a multiprocessor, by registers.
constexpr uint32_t kResidentBlocks = 2;

// Whether the block has anything to do: one that has not touches nothing, and need not wait.
__device__ bool has_splits(const AttentionTile& tile, const TileTask& task) {
  return tile.num_rows > 0 && blockIdx.z < task.num_splits();
}

// Grid: tiles, KV heads, splits; or fewer, that take every so manieth split. A step's inputs were
// copied: read ahead of the kernel before.
template <class Cache>
__global__ void __launch_bounds__(kSplitThreads, kResidentBlocks)
    split_kernel(PagedAttentionArgs args, AttentionPartials partials) {
  const AttentionTile tile = args.tiles[blockIdx.x];
  const TileTask task(args, tile, blockIdx.y);
  if (!has_splits(tile, task)) return;
  Cache cache(task, false);
  task.find_cache_rows(blockIdx.z);
  sync_block();
  wait_for_previous_kernel();
  allow_next_kernel();
  cache.stage(blockIdx.z);
  task.load_queries();
  attend_splits(args, task, partials, cache);
}

// The same of a decode: token i is sequence i's. All that is cached but the token itself was
// written by steps before, which have ended, as a step's first kernel waits before it lets the next
// one start: asked for ahead of the kernel before.
template <class Cache, uint32_t kPairs>
__global__ void __launch_bounds__(kSplitThreads, kResidentBlocks)
    decode_kernel(PagedAttentionArgs args, AttentionPartials partials, WriteKvArgs fresh) {
  const AttentionTile tile = args.tiles[blockIdx.x];
  const TileTask task(args, tile, blockIdx.y, tile.sequence);
  if (!has_splits(tile, task)) return;
  const bool has_own_position = (task.num_splits() - 1) % gridDim.z == blockIdx.z;
  Cache cache(task, has_own_position);
  task.find_cache_rows(blockIdx.z);
  sync_block();
  cache.stage(blockIdx.z);
  const FreshHeads<kPairs> heads(fresh, task, has_own_position);
  wait_for_previous_kernel();
  allow_next_kernel();
  heads.rotate();
  attend_splits(args, task, partials, cache);
}

LaunchShape tile_shape(const PagedAttentionArgs& args, size_t num_splits) {
  return {
      .grid =
          {grid_width(args.num_tiles),
           grid_height(args.cache.num_kv_heads),
           grid_height(num_splits)},
      .block = {kSplitThreads},
      .num_shared_bytes = TileMemory(args.cache.head_dim).num_bytes};
}

LaunchShape splits_shape(const PagedAttentionArgs& args, const AttentionPartials& partials) {
  CHECK(partials.memory != nullptr && partials.num_splits_max > 0, "memory for the splits");
  CHECK(partials.counters != nullptr, "memory for the splits");
  CHECK(partials.num_blocks_wanted > 0, "somebody walks the splits");
  const size_t num_walks = args.num_tiles * args.cache.num_kv_heads;
  const size_t num_blocks = div_ceil(partials.num_blocks_wanted, num_walks);
  return tile_shape(
      args, num_blocks < partials.num_splits_max ? num_blocks : partials.num_splits_max
  );
}

}  // namespace

void check_attention_args(const PagedAttentionArgs& args) {
  const KvBlocks& cache = args.cache;
  CHECK(args.out != nullptr && args.tiles != nullptr, "attention's memory");
  CHECK(args.num_tokens > 0, "attention's tokens");
  CHECK(args.positions != nullptr && args.cu_seqlens != nullptr, "attention's memory");
  CHECK(args.block_tables != nullptr, "attention's memory");
  CHECK(is_aligned(cache.keys) && is_aligned(cache.values), "16-byte memory");
  CHECK(is_aligned(args.q) && is_aligned(args.out), "16-byte memory");
  CHECK(cache.keys != nullptr && cache.values != nullptr, "attention's memory");
  CHECK(cache.head_dim > 0 && cache.head_dim % 2 == 0, "a head has pairs of dimensions");
  CHECK(cache.head_dim <= kHeadDimMax, "a head has at most 256 dimensions");
  CHECK(cache.num_kv_heads > 0 && cache.block_size > 0, "the cache has a shape");
  CHECK(args.num_heads > 0 && args.num_heads % cache.num_kv_heads == 0, "heads come in groups");
}

size_t num_attention_tiles(std::span<const int32_t> cu_seqlens, size_t group, size_t rows_of_tile) {
  size_t count = 0;
  for (size_t sequence = 0; sequence + 1 < cu_seqlens.size(); ++sequence) {
    const auto num_tokens = static_cast<size_t>(cu_seqlens[sequence + 1] - cu_seqlens[sequence]);
    count += div_ceil(num_tokens * group, rows_of_tile);
  }
  return count;
}

std::vector<AttentionTile> attention_tiles(
    std::span<const int32_t> cu_seqlens, size_t group, size_t rows_of_tile
) {
  std::vector<AttentionTile> tiles;
  tiles.reserve(num_attention_tiles(cu_seqlens, group, rows_of_tile));
  for (size_t sequence = 0; sequence + 1 < cu_seqlens.size(); ++sequence) {
    CHECK(cu_seqlens[sequence] <= cu_seqlens[sequence + 1], "sequences follow each other");
    const auto num_tokens = static_cast<size_t>(cu_seqlens[sequence + 1] - cu_seqlens[sequence]);
    const size_t num_rows = num_tokens * group;
    for (size_t row = 0; row < num_rows; row += rows_of_tile) {
      const size_t count = num_rows - row < rows_of_tile ? num_rows - row : rows_of_tile;
      tiles.push_back(
          {static_cast<int32_t>(sequence), static_cast<int32_t>(row), static_cast<int32_t>(count)}
      );
    }
  }
  return tiles;
}

std::vector<AttentionTile> wide_attention_tiles(
    std::span<const int32_t> cu_seqlens, std::span<const int32_t> context_lens, size_t group
) {
  std::vector<AttentionTile> tiles = attention_tiles(cu_seqlens, group, kWideAttentionRows);
  const auto num_seen = [&](const AttentionTile& tile) {
    const auto sequence = static_cast<size_t>(tile.sequence);
    const auto end_token =
        static_cast<int32_t>(div_ceil(static_cast<size_t>(tile.first_row + tile.num_rows), group));
    return context_lens[sequence] - (cu_seqlens[sequence + 1] - cu_seqlens[sequence]) + end_token;
  };
  std::ranges::stable_sort(tiles, std::ranges::greater(), num_seen);
  return tiles;
}

size_t attention_partials_size(
    size_t num_tiles, size_t num_splits_max, size_t num_kv_heads, size_t head_dim
) {
  return num_tiles * num_splits_max * num_kv_heads * partial_size(head_dim);
}

void paged_attention_in_splits(
    StreamHandle stream, const PagedAttentionArgs& args, const AttentionPartials& partials
) {
  if (args.num_tiles == 0) return;
  check_attention_args(args);
  CHECK(args.q != nullptr, "attention's memory");
  const LaunchShape shape = splits_shape(args, partials);
  TileMemory::is_staged(args.cache.head_dim)
      ? launch(stream, shape, split_kernel<StagedCache>, args, partials)
      : launch(stream, shape, split_kernel<DirectCache>, args, partials);
}

void decode_attention(
    StreamHandle stream,
    const PagedAttentionArgs& args,
    const AttentionPartials& partials,
    const WriteKvArgs& fresh
) {
  if (args.num_tiles == 0) return;
  check_attention_args(args);
  CHECK(fresh.qkv != nullptr && fresh.rope != nullptr && fresh.slots != nullptr, "heads' memory");
  CHECK(fresh.num_heads == args.num_heads && fresh.positions == args.positions, "the same tokens");
  CHECK(fresh.cache == args.cache, "the same cache");
  const LaunchShape shape = splits_shape(args, partials);
  with_lane_pairs(args.cache.head_dim, [&](auto num_pairs) {
    TileMemory::is_staged(args.cache.head_dim)
        ? launch(stream, shape, decode_kernel<StagedCache, num_pairs()>, args, partials, fresh)
        : launch(stream, shape, decode_kernel<DirectCache, num_pairs()>, args, partials, fresh);
  });
}

}  // namespace millrace::cuda
