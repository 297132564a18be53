// One split of the context for a tile of 16 rows, by a block. See paged_attention.h for the
// arithmetic. All functions here are called by a whole block.
#pragma once

#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/attention_cache.cuh"

namespace millrace::cuda {

// Of the warp's 32 positions of the split, four products of 8 columns side by side.
template <class Cache>
__device__ inline void score_positions(const TileTask& task, uint32_t split, const Cache& cache) {
  if (warp_index() * kWarpPositions >= task.num_seen(split)) return;
  const uint32_t group = lane_index() / 4;
  const uint32_t t = lane_index() % 4;
  const uint32_t num_steps = num_key_steps(task);
  float sums[kScoreTiles][4] = {};
#pragma unroll 1
  for (uint32_t step = 0; step < num_steps; ++step) {
    const uint32_t dimension = step * kStepDimensions + t * kWordElements;
    const Words4 upper = load_words(task.queries() + group * task.query_stride() + dimension);
    const Words4 lower = load_words(task.queries() + (group + 8) * task.query_stride() + dimension);
#pragma unroll
    for (uint32_t tile = 0; tile < kScoreTiles; ++tile) {
      const Words4 key = cache.key(step, tile);
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
  for (uint32_t tile = 0; tile < kScoreTiles; ++tile) {
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t row = group + i / 2 * 8;
      const uint32_t position = warp_index() * kWarpPositions + tile * 8 + t * 2 + i % 2;
      task.scores()[row * kScoreStride + position] = sums[tile][i];
    }
  }
}

// Of pieces that any row sees something of.
__device__ inline uint32_t num_pieces_seen(const TileTask& task, uint32_t split) {
  return (task.num_seen(split) + kPiece - 1) / kPiece;
}

// Scores to weights, a warp a row: the maximum and the sum of a row of the split. Rows that see
// nothing of it get weights as well, which nobody stores the products of.
__device__ inline void soften_rows(const TileTask& task, uint32_t split) {
  constexpr uint32_t kLaneScores = kSplit / kWarpThreads;
  const uint32_t num_lane_scores = num_pieces_seen(task, split) * (kPiece / kWarpThreads);
  for (uint32_t row = warp_index(); row < task.num_rows(); row += kSplitWarps) {
    const uint32_t num_seen =
        task.has_row(row, split) ? task.position_of(row) - split * kSplit + 1 : 0;
    float scores[kLaneScores];
    float maximum = -kLargestFloat;
#pragma unroll
    for (uint32_t i = 0; i < kLaneScores; ++i) {
      scores[i] = kMinusInfinity;
      if (i >= num_lane_scores) continue;
      const uint32_t position = i * kWarpThreads + lane_index();
      if (position < num_seen) {
        const float score = task.scores()[row * kScoreStride + position];
        scores[i] = score < kLargestFloat ? score : kLargestFloat;
      }
      maximum = larger(maximum, scores[i]);
    }
    maximum = largest_of_warp(maximum);
    float sum = 0.0F;
#pragma unroll
    for (uint32_t i = 0; i < kLaneScores; ++i) {
      if (i >= num_lane_scores) continue;
      const uint32_t position = i * kWarpThreads + lane_index();
      const float weight = position < num_seen ? exponential_to_one(scores[i] - maximum) : 0.0F;
      const auto rounded = static_cast<BFloat16Bits>(bfloat16_pair(weight, 0.0F));
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

// The values of pieces of 64 positions, weighted: dimensions [chunk, + 64) of every row, to the
// piece's place among the products. Column n of product e is dimension 8 n + e of the chunk, so
// that a lane loads eight neighbours; depth 2t, 2t + 1, 2t + 8, 2t + 9 are four neighbours as well.
template <class Cache>
__device__ inline void weigh_values(const TileTask& task, uint32_t split, const Cache& cache) {
  const uint32_t group = lane_index() / 4;
  const uint32_t t = lane_index() % 4;
  for (uint32_t unit = warp_index(); unit < task.num_chunks() * kPieces; unit += kSplitWarps) {
    const uint32_t piece = unit % kPieces;
    if (piece >= num_pieces_seen(task, split)) continue;
    float sums[kWordElements][4] = {};
#pragma unroll 2
    for (uint32_t step = 0; step < kPieceSteps; ++step) {
      const uint32_t position = piece * kPiece + step * 16 + t * 4;
      const BFloat16Bits* const upper = task.weights() + group * kWeightStride + position;
      const BFloat16Bits* const lower = upper + 8 * kWeightStride;
      const uint32_t weights[4] = {
          load_word(upper), load_word(lower), load_word(upper + 2), load_word(lower + 2)};
      Words4 values[4];
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) values[i] = cache.value(unit / kPieces, piece, step, i);
#pragma unroll
      for (uint32_t e = 0; e < kWordElements; ++e) {
        multiply_fragments(
            sums[e],
            weights,
            {pair_elements(values[0], values[1], e), pair_elements(values[2], values[3], e)}
        );
      }
    }
    sync_warp();  // all have read the values
    float* const products = task.products(unit);
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
}

// Computes a split; sink(row, dimension, value) gets each output of the rows that see something of
// it, once. before_outputs() is called by every thread when task.maxima() and task.sums() are
// there, and before the first output.
// REQUIRES: the queries are there, a barrier ago; the cache was asked to stage the split.
template <class Cache, class BeforeOutputs, class Sink>
__device__ void attend_split(
    const TileTask& task,
    uint32_t split,
    const Cache& cache,
    const BeforeOutputs& before_outputs,
    const Sink& sink
) {
  cache.wait();
  score_positions(task, split, cache);
  cache.stage_values();
  sync_block();
  soften_rows(task, split);
  cache.wait();
  sync_block();
  before_outputs();
  weigh_values(task, split, cache);
  sync_block();
  const uint32_t num_pieces = num_pieces_seen(task, split);
  for (uint32_t row = threadIdx.x / kChunk; row < task.num_rows(); row += kSplitThreads / kChunk) {
    if (!task.has_row(row, split)) continue;
    for (uint32_t chunk = 0; chunk < task.num_chunks(); ++chunk) {
      const uint32_t dimension = chunk * kChunk + threadIdx.x % kChunk;
      if (dimension >= task.head_dim()) continue;
      const float* const products =
          task.products(chunk * kPieces) + row * kProductStride + threadIdx.x % kChunk;
      float sum = products[0];
      for (uint32_t piece = 1; piece < num_pieces; ++piece) {
        sum += products[piece * TileMemory::kUnitBytes / sizeof(float)];
      }
      sink(row, dimension, sum);
    }
  }
}

}  // namespace millrace::cuda
