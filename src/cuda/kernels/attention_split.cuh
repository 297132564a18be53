// One split of the context for a tile of 16 rows, by a block: its warps share the positions. See
// paged_attention.h for the arithmetic. All functions here are called by a whole block.
#pragma once

#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/attention_tile.cuh"

namespace millrace::cuda {

// The warp's 64 positions of the split, eight products of 8 columns side by side.
template <bool kIsWhole>
__device__ inline void score_positions(const TileTask& task, uint32_t split) {
  constexpr uint32_t kTiles = kPiece / 8;
  const uint32_t first = warp_index() * kPiece;
  const uint32_t group = lane_index() / 4;
  const uint32_t t = lane_index() % 4;
  float sums[kTiles][4] = {};
  for (uint32_t d = t * kWordElements; d < task.head_dim() + t * kWordElements; d += 32) {
    const Words4 upper = load_words(task.queries() + group * task.query_stride() + d);
    const Words4 lower = load_words(task.queries() + (group + 8) * task.query_stride() + d);
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      const Words4 key =
          task.load_cached<kIsWhole>(task.keys(), split, first + tile * 8 + group, d);
#pragma unroll
      for (uint32_t i = 0; i < 4; i += 2) {
        multiply_fragments(
            sums[tile],
            {upper.words[i], lower.words[i], upper.words[i + 1], lower.words[i + 1]},
            {key.words[i], key.words[i + 1]}
        );
      }
    }
  }
#pragma unroll
  for (uint32_t tile = 0; tile < kTiles; ++tile) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = group + i / 2 * 8;
      const uint32_t position = first + tile * 8 + t * 2 + i % 2;
      task.scores()[row * kScoreStride + position] = sums[tile][i];
    }
  }
}

// Scores to weights, a warp a row: the maximum and the sum of a row of the split.
__device__ inline void soften_rows(const TileTask& task, uint32_t split) {
  constexpr uint32_t kLaneScores = kSplit / kWarpThreads;
  for (uint32_t row = warp_index(); row < kRows; row += kAttentionWarps) {
    const uint32_t num_seen =
        task.has_row(row, split) ? task.position_of(row) - split * kSplit + 1 : 0;
    float scores[kLaneScores];
    float maximum = -kLargestFloat;
#pragma unroll
    for (uint32_t i = 0; i < kLaneScores; ++i) {
      const uint32_t position = i * kWarpThreads + lane_index();
      const float score = task.scores()[row * kScoreStride + position];
      scores[i] = position >= num_seen    ? kMinusInfinity
                  : score < kLargestFloat ? score
                                          : kLargestFloat;
      maximum = larger(maximum, scores[i]);
    }
    maximum = largest_of_warp(maximum);
    float sum = 0.0F;
#pragma unroll
    for (uint32_t i = 0; i < kLaneScores; ++i) {
      const uint32_t position = i * kWarpThreads + lane_index();
      const float weight = position < num_seen ? exponential(scores[i] - maximum) : 0.0F;
      const BFloat16Bits rounded = bfloat16_from_float(weight);
      task.weights()[row * kWeightStride + position] = rounded;
      sum += float_from_bfloat16(rounded);
    }
    sum = sum_over_warp(sum);
    if (lane_index() == 0) {
      task.maxima()[row] = maximum;
      task.sums()[row] = sum;
    }
  }
}

// The values of the warp's 64 positions, weighted: dimensions [chunk, + 64) of every row, to the
// warp's place among the products. Column n of product e is dimension 8 n + e of the chunk, so that
// a lane loads eight neighbours; depth 2t, 2t + 1, 2t + 8, 2t + 9 are four neighbours as well.
template <bool kIsWhole>
__device__ inline void weigh_values(const TileTask& task, uint32_t split, uint32_t chunk) {
  const uint32_t group = lane_index() / 4;
  const uint32_t t = lane_index() % 4;
  const uint32_t dimension = chunk + group * kWordElements;
  float sums[kWordElements][4] = {};
  for (uint32_t step = 0; step < kPiece; step += 16) {
    const uint32_t position = warp_index() * kPiece + step + t * 4;
    const BFloat16Bits* const upper = task.weights() + group * kWeightStride + position;
    const BFloat16Bits* const lower = upper + 8 * kWeightStride;
    const auto pair = [](const BFloat16Bits* from) {
      return static_cast<uint32_t>(from[0]) | static_cast<uint32_t>(from[1]) << 16;
    };
    const uint32_t weights[4] = {pair(upper), pair(lower), pair(upper + 2), pair(lower + 2)};
    Words4 values[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      values[i] = task.load_cached<kIsWhole>(task.values(), split, position + i, dimension);
    }
#pragma unroll
    for (uint32_t e = 0; e < kWordElements; ++e) {
      multiply_fragments(
          sums[e],
          weights,
          {pair_elements(values[0], values[1], e), pair_elements(values[2], values[3], e)}
      );
    }
  }
  float* const products = task.scores() + warp_index() * kRows * kProductStride;
#pragma unroll
  for (uint32_t e = 0; e < kWordElements; ++e) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = group + i / 2 * 8;
      const uint32_t column = (t * 2 + i % 2) * kWordElements + e;
      products[row * kProductStride + column] = sums[e][i];
    }
  }
}

// kIsWhole: heads of a multiple of eight dimensions. Not asked at run time: both ways would be
// unrolled, and a decode's attention took 11.8 us with them, 11.1 without.
//
// Computes a split; sink(row, dimension, value) gets each output of the rows that see something of
// it, once. before_outputs() is called by every thread when task.maxima() and task.sums() are
// there, and before the first output.
// REQUIRES: the queries and the split's cache rows are there, a barrier ago.
template <bool kIsWhole, class BeforeOutputs, class Sink>
__device__ void attend_split(
    const TileTask& task, uint32_t split, const BeforeOutputs& before_outputs, const Sink& sink
) {
  score_positions<kIsWhole>(task, split);
  sync_block();
  soften_rows(task, split);
  sync_block();
  before_outputs();
  for (uint32_t chunk = 0; chunk < task.head_dim(); chunk += kChunk) {
    weigh_values<kIsWhole>(task, split, chunk);
    sync_block();
    for (uint32_t i = threadIdx.x; i < kRows * kChunk; i += kAttentionThreads) {
      const uint32_t row = i / kChunk;
      const uint32_t dimension = chunk + i % kChunk;
      if (dimension >= task.head_dim() || !task.has_row(row, split)) continue;
      const float* const products = task.scores() + row * kProductStride + i % kChunk;
      float sum = products[0];
      for (uint32_t warp = 1; warp < kAttentionWarps; ++warp) {
        sum += products[warp * kRows * kProductStride];
      }
      sink(row, dimension, sum);
    }
    sync_block();
  }
}

}  // namespace millrace::cuda
