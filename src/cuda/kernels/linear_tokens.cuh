// The tokens that a block of linear() multiplies, as operands of multiply_fragments().
#pragma once

#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/linear_task.cuh"
#include "cuda/kernels/operand_tiles.h"
#include "cuda/kernels/rms_norm.cuh"

namespace millrace::cuda {

constexpr uint32_t kTokenTilesMax = 4;  // that share what is loaded of the weights

// A lane's half of a tile of tokens for the steps of a chunk: its words of each core.
struct TokenWords {
  Words4 words[2] = {};

  __device__ uint32_t& of_core(uint32_t core) { return words[core / 4].words[core % 4]; }
};

// The tokens of a chunk as operands, where rms_norm() or another kernel left them, kTokenTiles
// tiles. kIsFew: as few tokens lie; of many the tiles lie within a group. kIsWhole: inputs of a
// multiple of 64, so that there is no padding.
template <uint32_t kTokenTiles, bool kIsFew, bool kIsWhole>
class StoredTokens {
 public:
  // Chunks that are loaded ahead: as many registers as there are for it.
  static constexpr uint32_t kAhead = kTokenTiles == kTokenTilesMax ? 2 : 4;

  __device__ StoredTokens(const LinearTask& task, uint32_t first_tile)
      : task_(task),
        first_token_(first_tile * kTileTokens + lane_index() / 4),
        from_(
            task.args.x +
            token_tile_chunk(first_tile, 0, task.num_chunks, kIsFew ? 1 : kFewTokens + 1) +
            lane_index() * (kIsFew ? kLaneChunkElements : 2)
        ) {}

  // Zeros for tokens that are not there, whose memory nobody has written.
  __device__ void load(uint32_t chunk, TokenWords (&x)[kTokenTiles]) const {
    constexpr uint32_t kChunkStride =
        kIsFew ? kTileChunkElements : kTileChunkElements << kGroupTilesLog2;
#pragma unroll
    for (uint32_t tile = 0; tile < kTokenTiles; ++tile) {
      if (first_token_ + tile * kTileTokens >= task_.num_tokens) continue;
      const uint32_t tile_begin = (kIsFew ? tile * task_.num_chunks : tile) * kTileChunkElements;
      const BFloat16Bits* const from = from_ + size_t{chunk} * kChunkStride + tile_begin;
      if (kIsFew) {
        for (uint32_t i = 0; i < 2; ++i) x[tile].words[i] = load_words(from + i * kWordElements);
      } else {
#pragma unroll
        for (uint32_t core = 0; core < kChunkCores; ++core) {
          x[tile].of_core(core) = load_word(from + core * kCoreElements);
        }
      }
      if (!kIsWhole) clear_padding(chunk, x[tile]);
    }
  }

 private:
  __device__ void clear_padding(uint32_t chunk, TokenWords& x) const {
#pragma unroll
    for (uint32_t core = 0; core < kChunkCores; ++core) {
      const size_t input = chunk * kChunkInputs + core * kCoreInputs + lane_index() % 4 * 2;
      if (input >= task_.args.num_inputs) x.of_core(core) = 0;
      if (input + 1 == task_.args.num_inputs) x.of_core(core) &= 0xFFFFU;
    }
  }

  const LinearTask& task_;
  uint32_t first_token_;  // the lane's, of the first tile
  const BFloat16Bits* from_;
};

// The same for one tile that the block norms for itself, in shared memory: in the order of few
// tokens, as many as there are.
class NormedTokens {
 public:
  static constexpr uint32_t kAhead = 1;

  __device__ NormedTokens(const RmsNormArgs& norm, size_t offset_bytes)
      : norm_(norm),
        num_tokens_(static_cast<uint32_t>(norm.num_tokens)),
        hidden_(static_cast<uint32_t>(norm.hidden)),
        sums_(dynamic_shared<float>(offset_bytes, kTileTokens * kNormWarps)),
        elements_(
            dynamic_shared<BFloat16Bits>(offset_bytes + kSumBytes, norm.hidden * norm.num_tokens)
        ) {}

  static constexpr size_t kSumBytes = size_t{kTileTokens} * kNormWarps * sizeof(float);
  static size_t num_bytes(const RmsNormArgs& norm) {
    return kSumBytes + norm.hidden * norm.num_tokens * sizeof(BFloat16Bits);
  }

  // The thread's first weights, and the block's others to the cache that all share: no kernel
  // writes them.
  __device__ void load_weights(float (&weights)[kNormColumns]) const {
    constexpr uint32_t kLineElements = 32;
    const uint32_t i = threadIdx.x * kLineElements;
    if (i < hidden_) prefetch(norm_.weight + i);
    load_columns<true>(norm_.weight, threadIdx.x * kNormColumns, hidden_, weights);
  }

  // By the whole block, before the first load.
  __device__ void norm_all(float (&weights)[kNormColumns]) const {
    for (uint32_t i = warp_index(); i < num_tokens_ * kNormWarps; i += num_warps()) {
      const float* const row = norm_.x + i / kNormWarps * hidden_;
      const float sum = sum_of_norm_warp<true>(row, hidden_, i % kNormWarps);
      if (lane_index() == 0) sums_[i] = sum;
    }
    sync_block();
    // Divisions are long: lane i of every warp does token i's.
    float of_lane = 0.0F;
    if (lane_index() < num_tokens_) {
      const float* const sums = sums_ + lane_index() * kNormWarps;
      of_lane = sums[0];
#pragma unroll
      for (uint32_t i = 1; i < kNormWarps; ++i) of_lane += sums[i];
    }
    const float factor_of_lane = inverse_rms(of_lane, hidden_, norm_.eps);
    const uint32_t num_cores = hidden_ / kCoreInputs;
    for (uint32_t first = 0; first < num_cores; first += blockDim.x) {
      const uint32_t core = first + threadIdx.x;
      if (first > 0) load_columns<true>(norm_.weight, core * kCoreInputs, hidden_, weights);
#pragma unroll 1
      for (uint32_t token = 0; token < num_tokens_; ++token) {
        const float factor = shuffle(factor_of_lane, token);
        if (core < num_cores) norm_core(core, token, factor, weights);
      }
    }
    sync_block();
  }

  __device__ void load(uint32_t chunk, TokenWords (&x)[1]) const {
    const uint32_t token = lane_index() / 4;
    if (token >= num_tokens_) return;
    const BFloat16Bits* const from = lane_elements(chunk, token, lane_index() % 4);
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) x[0].words[i] = load_words(from + i * kWordElements);
  }

 private:
  __device__ void norm_core(
      uint32_t core, uint32_t token, float factor, const float (&weights)[kNormColumns]
  ) const {
    float values[kNormColumns];
    load_columns<true>(norm_.x + token * hidden_, core * kCoreInputs, hidden_, values);
    const Words4 normed = normed_columns(values, weights, factor);
#pragma unroll
    for (uint32_t t = 0; t < 4; ++t) {
      store_word(
          lane_elements(core / kChunkCores, token, t) + core % kChunkCores * 2, normed.words[t]
      );
    }
  }

  __device__ BFloat16Bits* lane_elements(uint32_t chunk, uint32_t token, uint32_t t) const {
    return elements_ + (chunk * num_tokens_ + token) * kChunkInputs + t * kLaneChunkElements;
  }

  const RmsNormArgs& norm_;
  uint32_t num_tokens_;
  uint32_t hidden_;
  float* sums_;  // [num_tokens][kNormWarps]
  BFloat16Bits* elements_;
};

}  // namespace millrace::cuda
