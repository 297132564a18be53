// What the kernels of linear() know of a product, and what they do with finished sums.
#pragma once

#include <bit>

#include "base/check.h"
#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/operand_tiles.h"

namespace millrace::cuda {

struct LinearTask {
  LinearArgs args;
  uint32_t num_tokens;
  uint32_t num_outputs;  // columns of out
  uint32_t num_panels;
  uint32_t num_chunks;
  uint32_t num_parts_log2;

  __device__ const BFloat16Bits* weights() const {
    return static_cast<const BFloat16Bits*>(args.weights);
  }
  __host__ __device__ uint32_t num_parts() const { return 1U << num_parts_log2; }
  // The first chunk of a part, and of what follows the last.
  __device__ uint32_t part_begin(uint32_t part) const {
    return part * num_chunks >> num_parts_log2;
  }
};

// REQUIRES: what linear.h says of `args`; aborts else. `num_parts`: a power of two.
inline LinearTask checked_linear_task(
    const LinearArgs& args, size_t num_panels, uint32_t num_parts
) {
  const bool is_silu_mul = args.epilogue == LinearEpilogue::kSiluMul;
  CHECK(args.x != nullptr && args.weights != nullptr, "a product's memory");
  CHECK(!is_silu_mul || args.num_rows % 2 == 0, "as many rows of gate as of up");
  CHECK(is_silu_mul ? args.activation != nullptr : args.out != nullptr, "a product's memory");
  CHECK(is_aligned(args.x) && is_aligned(args.weights), "16-byte memory");
  CHECK(args.num_tokens * args.num_rows <= UINT32_MAX, "a result of at most 2^32 - 1 elements");
  return {
      .args = args,
      .num_tokens = static_cast<uint32_t>(args.num_tokens),
      .num_outputs = static_cast<uint32_t>(is_silu_mul ? args.num_rows / 2 : args.num_rows),
      .num_panels = static_cast<uint32_t>(num_panels),
      .num_chunks = static_cast<uint32_t>(num_chunks_of(args.num_inputs)),
      .num_parts_log2 = static_cast<uint32_t>(std::countr_zero(num_parts))};
}

// What follows the sums that a lane has of a panel's products with kTiles tiles of tokens: see
// multiply_fragments(). By whole warps. The tiles are of one group (operand_tiles.h), or of few
// tokens.
//
// A prompt's kernels have 32 tiles a lane, while the tensor cores wait: so whatever does not depend
// on the tile is computed once. Indices have 32 bits: checked_linear_task().
template <uint32_t kTiles>
class PanelOutputs {
 public:
  __device__ PanelOutputs(const LinearTask& task, uint32_t panel, uint32_t first_tile)
      : task_(task), first_tile_(first_tile), first_row_(panel * (is_silu_mul() ? 8 : kTileRows)) {}

  // What the sums are added to, all of it at once and before they are there: each is a walk to
  // memory and back. kAddToOut.
  __device__ void load_before(float (&before)[kTiles][4]) const {
    const LanePlaces places(*this);
#pragma unroll
    for (uint32_t i = 0; i < kTiles * 4; ++i) {
      before[i / 4][i % 4] = places.has(i) ? *places.at(i) : 0.0F;
    }
  }

  // Of the lane's two rows; zeros where there is none.
  __device__ void load_bias(float (&bias)[2]) const {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) bias[i] = has_bias(i) ? task_.args.bias[bias_row(i)] : 0.0F;
  }
  // The same ahead of time, to the cache that all share.
  __device__ void prefetch_bias() const {
    if (lane_index() < 2 && has_bias(lane_index())) {
      prefetch(task_.args.bias + bias_row(lane_index()));
    }
  }

  // What follows finished sums. `before`: of load_before(), for kAddToOut.
  __device__ void finish(
      const float (&bias)[2], const float (&before)[kTiles][4], float (&sums)[kTiles][4]
  ) const {
    add_bias(bias, sums);
    switch (task_.args.epilogue) {
      case LinearEpilogue::kStore:
        return store(sums);
      case LinearEpilogue::kAddToOut:
        return store_sums(before, sums);
      case LinearEpilogue::kSiluMul:
        return store_activation(sums);
    }
  }

  // The same, one by one.
  __device__ void add_bias(const float (&bias)[2], float (&sums)[kTiles][4]) const {
    if (task_.args.bias == nullptr) return;
#pragma unroll
    for (uint32_t i = 0; i < kTiles * 4; ++i) sums[i / 4][i % 4] += bias[i % 4 / 2];
  }
  __device__ void store(const float (&values)[kTiles][4]) const {
    const LanePlaces places(*this);
#pragma unroll
    for (uint32_t i = 0; i < kTiles * 4; ++i) {
      if (places.has(i)) *places.at(i) = values[i / 4][i % 4];
    }
  }
  __device__ void store_sums(const float (&before)[kTiles][4], const float (&sums)[kTiles][4])
      const {
    const LanePlaces places(*this);
#pragma unroll
    for (uint32_t i = 0; i < kTiles * 4; ++i) {
      if (places.has(i)) *places.at(i) = before[i / 4][i % 4] + sums[i / 4][i % 4];
    }
  }
  // A core of the result is written as one: 128 bytes, a word a lane.
  __device__ void store_activation(const float (&sums)[kTiles][4]) const {
    const uint32_t group = lane_index() / 4;
    const uint32_t t = lane_index() % 4;
    const uint32_t num_tokens = num_tokens_from(group);
    const size_t num_chunks = num_chunks_of(task_.num_outputs);
    // Rows that are not there become padding, which is there.
    BFloat16Bits* const first =
        task_.args.activation +
        token_element(first_token(group), first_row_ + t * 2, task_.num_outputs, task_.num_tokens);
    const size_t stride = token_tile_stride(num_chunks, task_.num_tokens);
#pragma unroll
    for (uint32_t tile = 0; tile < kTiles; ++tile) {
      float values[2];
      for (uint32_t i = 0; i < 2; ++i) values[i] = silu(sums[tile][i]) * sums[tile][2 + i];
      // Of row g tokens 2t and 2t + 1; wanted of token g rows 2t and 2t + 1.
      const uint32_t of_row = bfloat16_pair(values[0], values[1]);
      const uint32_t lower = shuffle(of_row, 2 * t * 4 + group / 2);
      const uint32_t upper = shuffle(of_row, (2 * t + 1) * 4 + group / 2);
      const uint32_t word =
          group % 2 == 0 ? (lower & 0xFFFFU) | upper << 16 : lower >> 16 | (upper & 0xFFFF0000U);
      if (tile * kTileTokens < num_tokens) store_word(first + tile * stride, word);
    }
  }

 private:
  // Where a lane's sums[i / 4][i % 4] belong in out, of those that have a place.
  class LanePlaces {
   public:
    __device__ explicit LanePlaces(const PanelOutputs& outputs)
        : stride_(outputs.task_.num_outputs),
          num_tokens_(outputs.num_tokens_from(lane_index() % 4 * 2)),
          has_row_{outputs.row() < stride_, outputs.row() + 8 < stride_},
          first_(
              outputs.task_.args.out + outputs.first_token(lane_index() % 4 * 2) * stride_ +
              outputs.row()
          ) {}

    __device__ bool has(uint32_t i) const {
      return token_of(i) < num_tokens_ && has_row_[i % 4 / 2];
    }
    __device__ float* at(uint32_t i) const {
      return first_ + token_of(i) * stride_ + i % 4 / 2 * 8;
    }

   private:
    // Behind the lane's first.
    __device__ static uint32_t token_of(uint32_t i) { return i / 4 * kTileTokens + i % 2; }

    uint32_t stride_;
    uint32_t num_tokens_;
    bool has_row_[2];
    float* first_;
  };

  __device__ bool is_silu_mul() const {
    return task_.args.epilogue == LinearEpilogue::kSiluMul;
  }
  __device__ uint32_t row() const {
    return first_row_ + lane_index() / 4;
  }
  __device__ uint32_t first_token(uint32_t of_tile) const {
    return first_tile_ * kTileTokens + of_tile;
  }
  // Tokens that there are from that one of the first tile on.
  __device__ uint32_t num_tokens_from(uint32_t of_tile) const {
    const uint32_t first = first_token(of_tile);
    return first < task_.num_tokens ? task_.num_tokens - first : 0;
  }

  // Of the lane's first or second row.
  __device__ bool has_bias(uint32_t i) const {
    return task_.args.bias != nullptr && row() + (is_silu_mul() ? 0 : i * 8) < task_.num_outputs;
  }
  __device__ uint32_t bias_row(uint32_t i) const {
    return row() + i * (is_silu_mul() ? task_.num_outputs : 8);
  }

  const LinearTask& task_;
  uint32_t first_tile_;
  uint32_t first_row_;  // of out, or of gate
};

}  // namespace millrace::cuda
