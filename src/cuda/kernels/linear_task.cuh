// What the kernels of linear() know of a product, and what they do with finished sums.
#pragma once

#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/operand_tiles.h"

namespace millrace::cuda {

struct LinearTask {
  LinearArgs args;
  size_t num_outputs;  // columns of out
  uint32_t num_panels;
  uint32_t num_chunks;
  uint32_t num_parts;

  // The first chunk of a part, and of what follows the last.
  __device__ uint32_t part_begin(uint32_t part) const { return part * num_chunks / num_parts; }
};

// What follows the sums that a lane has of a panel's products with kTiles tiles of tokens: see
// multiply_fragments(). By whole warps.
template <uint32_t kTiles>
class PanelOutputs {
 public:
  __device__ PanelOutputs(const LinearTask& task, size_t panel, size_t first_tile)
      : task_(task),
        is_silu_mul_(task.args.epilogue == LinearEpilogue::kSiluMul),
        panel_(panel),
        first_tile_(first_tile),
        row_(panel * (is_silu_mul_ ? 8 : kTileRows) + lane_index() / 4) {}

  // What the sums are added to, all of it at once and before they are there: each is a walk to
  // memory and back. kAddToOut.
  __device__ void load_before(float (&before)[kTiles][4]) const {
#pragma unroll
    for (uint32_t i = 0; i < kTiles * 4; ++i) {
      const float* const place = place_of(i);
      before[i / 4][i % 4] = place == nullptr ? 0.0F : *place;
    }
  }

  // Of the lane's two rows; zeros where there is none.
  __device__ void load_bias(float (&bias)[2]) const {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const float* const place = bias_of(i);
      bias[i] = place == nullptr ? 0.0F : *place;
    }
  }
  // The same ahead of time, to the cache that all share.
  __device__ void prefetch_bias() const {
    const float* const place = bias_of(lane_index() % 4 == 0 ? 0 : 1);
    if (lane_index() < 2 && place != nullptr) prefetch(place);
  }

  __device__ void add_bias(const float (&bias)[2], float (&sums)[kTiles][4]) const {
    if (task_.args.bias == nullptr) return;
#pragma unroll
    for (uint32_t i = 0; i < kTiles * 4; ++i) sums[i / 4][i % 4] += bias[i % 4 / 2];
  }

  // kStore and kAddToOut: what is ready.
  __device__ void store(const float (&values)[kTiles][4]) const {
#pragma unroll
    for (uint32_t i = 0; i < kTiles * 4; ++i) {
      float* const place = place_of(i);
      if (place != nullptr) *place = values[i / 4][i % 4];
    }
  }

  // kSiluMul. A core of the result is written as one: 128 bytes, a word a lane.
  __device__ void store_activation(const float (&sums)[kTiles][4]) const {
    const uint32_t group = lane_index() / 4;
    const uint32_t t = lane_index() % 4;
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      float values[2];
      for (uint32_t i = 0; i < 2; ++i) {
        values[i] = has_row(row_) ? silu(sums[tile][i]) * sums[tile][2 + i] : 0.0F;
      }
      // Of row g tokens 2t and 2t + 1; wanted of token g rows 2t and 2t + 1.
      const uint32_t of_row = bfloat16_pair(values[0], values[1]);
      const uint32_t first = shuffle(of_row, 2 * t * 4 + group / 2);
      const uint32_t second = shuffle(of_row, (2 * t + 1) * 4 + group / 2);
      const uint32_t word =
          group % 2 == 0 ? (first & 0xFFFFU) | second << 16 : first >> 16 | (second & 0xFFFF0000U);
      const size_t token = (first_tile_ + tile) * kTileTokens + group;
      if (token >= task_.args.num_tokens) continue;
      const size_t element =
          token_element(token, panel_ * 8 + t * 2, task_.num_outputs, task_.args.num_tokens);
      store_word(task_.args.activation + element, word);
    }
  }

 private:
  __device__ bool has_row(size_t row) const {
    return row < task_.num_outputs;
  }

  // Of the lane's first or second row; null: nowhere.
  __device__ const float* bias_of(uint32_t i) const {
    const float* const bias = task_.args.bias;
    const size_t row = is_silu_mul_ ? row_ : row_ + 8 * i;
    if (bias == nullptr || !has_row(row)) return nullptr;
    return bias + row + (is_silu_mul_ ? i * task_.num_outputs : 0);
  }

  // Of sums[i / 4][i % 4] in out; null: nowhere.
  __device__ float* place_of(uint32_t i) const {
    const size_t token = (first_tile_ + i / 4) * kTileTokens + lane_index() % 4 * 2 + i % 2;
    const size_t row = i % 4 < 2 ? row_ : row_ + 8;
    if (!has_row(row) || token >= task_.args.num_tokens) return nullptr;
    return task_.args.out + token * task_.num_outputs + row;
  }

  const LinearTask& task_;
  bool is_silu_mul_;
  size_t panel_;
  size_t first_tile_;
  size_t row_;  // the lane's first: of out, or of gate
};

// out = before + sums.
template <uint32_t kTiles>
__device__ inline void add_sums(const float (&before)[kTiles][4], float (&sums)[kTiles][4]) {
#pragma unroll
  for (uint32_t i = 0; i < kTiles * 4; ++i) {
    sums[i / 4][i % 4] = before[i / 4][i % 4] + sums[i / 4][i % 4];
  }
}

}  // namespace millrace::cuda
