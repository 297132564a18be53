#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/attention_split.cuh"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/paged_attention.h"

namespace millrace::cuda {
namespace {

// How the results of all splits before, and that of the next one, go into those of both.
struct MergeFactors {
  float maximum;
  float keep;
  float add;
};

__device__ MergeFactors merge_factors(float old_maximum, float maximum) {
  const float merged = larger(old_maximum, maximum);
  return {merged, exponential(old_maximum - merged), exponential(maximum - merged)};
}

__device__ float merge(const MergeFactors& factors, float old_value, float value) {
  return fused_multiply_add(value, factors.add, old_value * factors.keep);
}

__device__ BFloat16Bits finished(float output, float sum) {
  return bfloat16_from_float(output / (sum == 0.0F ? 1.0F : sum));
}

// Rows' values in shared memory while a block walks; those of the split are task.maxima() and
// task.sums().
struct WalkState {
  float* maxima;   // [kRows]
  float* sums;     // [kRows]
  float* outputs;  // [kRows][head_dim]
  float* keep;     // [kRows], of the split
  float* add;      // [kRows]
};

// By one thread of each row.
__device__ void merge_sums(const TileTask& task, uint32_t split, const WalkState& state) {
  const uint32_t row = threadIdx.x;
  if (row >= kRows || !task.has_row(row, split)) return;
  if (split == 0) {
    state.maxima[row] = task.maxima()[row];
    state.sums[row] = task.sums()[row];
    return;
  }
  const MergeFactors factors = merge_factors(state.maxima[row], task.maxima()[row]);
  state.maxima[row] = factors.maximum;
  state.sums[row] = merge(factors, state.sums[row], task.sums()[row]);
  state.keep[row] = factors.keep;
  state.add[row] = factors.add;
}

// Grid: tiles, KV heads.
__global__ void __launch_bounds__(kAttentionThreads, 1) walk_kernel(PagedAttentionArgs args) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const AttentionTile tile = args.tiles[blockIdx.x];
  if (tile.num_rows == 0) return;
  const TileTask task(args, tile, blockIdx.y);
  float* const memory = task.state();
  const WalkState state = {
      memory, memory + kRows, memory + 2 * kRows, task.row_values(2), task.row_values(3)};
  task.load_queries();
  for (uint32_t split = 0; split < task.num_splits(); ++split) {
    attend_split(
        task,
        split,
        [&] { merge_sums(task, split, state); },
        [&](uint32_t row, uint32_t dimension, float value) {
          float& output = state.outputs[row * task.head_dim() + dimension];
          output =
              split == 0 ? value : merge({0.0F, state.keep[row], state.add[row]}, output, value);
        }
    );
  }
  for (uint32_t row = warp_index(); row < task.num_rows(); row += kAttentionWarps) {
    const float* const outputs = state.outputs + row * task.head_dim();
    for (uint32_t i = lane_index(); i < task.head_dim(); i += kWarpThreads) {
      args.out[task.row_begin(row) + i] = finished(outputs[i], state.sums[row]);
    }
  }
}

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

// What a split leaves: rows that see nothing of it leave nothing.
__device__ void attend_partially(const TileTask& task, uint32_t split, const PartialView& partial) {
  attend_split(
      task,
      split,
      [&] {
        const uint32_t row = threadIdx.x;
        if (row >= kRows || !task.has_row(row, split)) return;
        partial.maximum(row) = task.maxima()[row];
        partial.sum(row) = task.sums()[row];
      },
      [&](uint32_t row, uint32_t dimension, float value) { partial.output(row, dimension) = value; }
  );
}

// Grid: tiles, KV heads, splits; or fewer, that take every so manieth split.
__global__ void __launch_bounds__(kAttentionThreads, 1)
    split_kernel(PagedAttentionArgs args, AttentionPartials partials) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const AttentionTile tile = args.tiles[blockIdx.x];
  if (tile.num_rows == 0) return;
  const TileTask task(args, tile, blockIdx.y);
  if (blockIdx.z >= task.num_splits()) return;
  task.load_queries();
  for (uint32_t split = blockIdx.z; split < task.num_splits(); split += gridDim.z) {
    attend_partially(task, split, partial_of(args, partials, split));
  }
}

// Grid: tiles, KV heads. A warp merges a row, a lane every 32nd dimension of it.
__global__ void __launch_bounds__(kAttentionThreads, 1)
    merge_kernel(PagedAttentionArgs args, AttentionPartials partials) {
  constexpr uint32_t kLaneDimensions = kHeadDimMax / kWarpThreads;
  wait_for_previous_kernel();
  allow_next_kernel();
  const AttentionTile tile = args.tiles[blockIdx.x];
  if (tile.num_rows == 0) return;
  const TileTask task(args, tile, blockIdx.y);
  for (uint32_t row = warp_index(); row < task.num_rows(); row += kAttentionWarps) {
    float maximum = 0.0F;
    float sum = 0.0F;
    float outputs[kLaneDimensions] = {};
    for (uint32_t split = 0; task.has_row(row, split); ++split) {
      const PartialView partial = partial_of(args, partials, split);
      const MergeFactors factors = merge_factors(maximum, partial.maximum(row));
      maximum = split == 0 ? partial.maximum(row) : factors.maximum;
      sum = split == 0 ? partial.sum(row) : merge(factors, sum, partial.sum(row));
#pragma unroll
      for (uint32_t i = 0; i < kLaneDimensions; ++i) {
        const uint32_t dimension = i * kWarpThreads + lane_index();
        if (dimension >= task.head_dim()) continue;
        const float value = partial.output(row, dimension);
        outputs[i] = split == 0 ? value : merge(factors, outputs[i], value);
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < kLaneDimensions; ++i) {
      const uint32_t dimension = i * kWarpThreads + lane_index();
      if (dimension < task.head_dim()) {
        args.out[task.row_begin(row) + dimension] = finished(outputs[i], sum);
      }
    }
  }
}

void check_args(const PagedAttentionArgs& args) {
  const KvBlocks& cache = args.cache;
  CHECK(args.q != nullptr && args.out != nullptr && args.tiles != nullptr, "attention's memory");
  CHECK(args.positions != nullptr && args.cu_seqlens != nullptr, "attention's memory");
  CHECK(args.block_tables != nullptr, "attention's memory");
  CHECK(is_aligned(cache.keys) && is_aligned(cache.values), "16-byte memory");
  CHECK(cache.keys != nullptr && cache.values != nullptr, "attention's memory");
  CHECK(cache.head_dim > 0 && cache.head_dim % 2 == 0, "a head has pairs of dimensions");
  CHECK(cache.head_dim <= kHeadDimMax, "a head has at most 256 dimensions");
  CHECK(cache.num_kv_heads > 0 && cache.block_size > 0, "the cache has a shape");
  CHECK(args.num_heads > 0 && args.num_heads % cache.num_kv_heads == 0, "heads come in groups");
}

LaunchShape tile_shape(const PagedAttentionArgs& args, size_t num_splits) {
  return {
      .grid =
          {grid_width(args.num_tiles),
           grid_height(args.cache.num_kv_heads),
           grid_height(num_splits)},
      .block = {kAttentionThreads},
      .num_shared_bytes = TileMemory(args.cache.head_dim).num_bytes};
}

}  // namespace

size_t num_attention_tiles(std::span<const int32_t> cu_seqlens, size_t group) {
  size_t count = 0;
  for (size_t sequence = 0; sequence + 1 < cu_seqlens.size(); ++sequence) {
    const auto num_tokens = static_cast<size_t>(cu_seqlens[sequence + 1] - cu_seqlens[sequence]);
    count += div_ceil(num_tokens * group, size_t{kAttentionTileRows});
  }
  return count;
}

std::vector<AttentionTile> attention_tiles(std::span<const int32_t> cu_seqlens, size_t group) {
  std::vector<AttentionTile> tiles;
  tiles.reserve(num_attention_tiles(cu_seqlens, group));
  for (size_t sequence = 0; sequence + 1 < cu_seqlens.size(); ++sequence) {
    CHECK(cu_seqlens[sequence] <= cu_seqlens[sequence + 1], "sequences follow each other");
    const auto num_tokens = static_cast<size_t>(cu_seqlens[sequence + 1] - cu_seqlens[sequence]);
    const size_t num_rows = num_tokens * group;
    for (size_t row = 0; row < num_rows; row += kAttentionTileRows) {
      const size_t count =
          num_rows - row < kAttentionTileRows ? num_rows - row : kAttentionTileRows;
      tiles.push_back(
          {static_cast<int32_t>(sequence), static_cast<int32_t>(row), static_cast<int32_t>(count)}
      );
    }
  }
  return tiles;
}

size_t attention_partials_size(
    size_t num_tiles, size_t num_splits_max, size_t num_kv_heads, size_t head_dim
) {
  return num_tiles * num_splits_max * num_kv_heads * partial_size(head_dim);
}

void paged_attention(StreamHandle stream, const PagedAttentionArgs& args) {
  if (args.num_tiles == 0) return;
  check_args(args);
  launch(stream, tile_shape(args, 1), walk_kernel, args);
}

void paged_attention_in_splits(
    StreamHandle stream, const PagedAttentionArgs& args, const AttentionPartials& partials
) {
  if (args.num_tiles == 0) return;
  check_args(args);
  CHECK(partials.memory != nullptr && partials.num_splits_max > 0, "memory for the splits");
  CHECK(partials.num_blocks_wanted > 0, "somebody walks the splits");
  const size_t num_walks = args.num_tiles * args.cache.num_kv_heads;
  const size_t num_blocks = div_ceil(partials.num_blocks_wanted, num_walks);
  const size_t depth = num_blocks < partials.num_splits_max ? num_blocks : partials.num_splits_max;
  launch(stream, tile_shape(args, depth), split_kernel, args, partials);
  LaunchShape merge_shape = tile_shape(args, 1);
  merge_shape.num_shared_bytes = 0;
  launch(stream, merge_shape, merge_kernel, args, partials);
}

}  // namespace millrace::cuda
