// Codes of weights (code_tiles.h) on their way to the tensor cores: a step's of a lane become the
// first operand of multiply_fragments(), exactly.
#pragma once

#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/code_tiles.h"
#include "cuda/kernels/linear_task.cuh"
#include "cuda/kernels/operand_tiles.h"

namespace millrace::cuda {

// What the kernels of linear_quantized() know of a product.
struct QuantizedTask {
  LinearTask product;  // its weights: panels of codes
  uint32_t num_pairs;
  uint32_t panel_bytes;
  uint32_t scales_begin;
  uint32_t row_scales_begin;
  BFloat16Bits codebook[16];  // of int4

  // The first pair of chunks of a part, and of what follows the last.
  __device__ uint32_t part_begin(uint32_t part) const {
    return part * num_pairs >> product.num_parts_log2;
  }
  __device__ const unsigned char* panel(uint32_t index) const {
    return static_cast<const unsigned char*>(product.args.weights) + size_t{index} * panel_bytes;
  }
  // What finished sums of row `row` of a panel are multiplied with.
  __device__ float row_scale(uint32_t panel_index, uint32_t row) const {
    return float_from_bits(load_word(panel(panel_index) + row_scales_begin + row * sizeof(float)));
  }
};

class Int8Codes {
 public:
  static constexpr uint32_t kBits = 8;
  static constexpr uint32_t kPieces = 2;  // of 16 bytes, that a lane has of a chunk
  static constexpr size_t kTableBytes = 0;

  __device__ explicit Int8Codes(size_t /*table_offset*/) {}
  __device__ void create(const QuantizedTask& /*task*/) const {}

  // A byte of 128 h + l is l - 128 (1 - h), exactly: 0x43 before the byte without h is 128 + l, and
  // from that 256 is taken (0xC380), or 128 (0xC300): which, h says.
  __device__ Words4 weights(const Words4 (&pieces)[kPieces], uint32_t step) const {
    constexpr uint32_t k43 = 0x43434343;
    Words4 result;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t pair =
          bytes_as_halves(pieces[step / 2].words[step % 2 * 2 + i / 2], i % 2, k43);
      result.words[i] = add_bfloat16_pairs(pair & 0xFF7FFF7F, equal_bits(pair, k43, 0xC380C380));
    }
    return result;
  }
};

// A byte, of two codes, becomes both by one load from a table of every byte's, of which each lane
// has its own, so that all find theirs at once: 32 KiB of shared memory.
class Int4Codes {
 public:
  static constexpr uint32_t kBits = 4;
  static constexpr uint32_t kPieces = 1;
  static constexpr uint32_t kBytes = 256;
  static constexpr size_t kTableBytes = size_t{kBytes} * kWarpThreads * sizeof(uint32_t);

  // In shared memory; a multiple of 16 bytes.
  __device__ explicit Int4Codes(size_t table_offset)
      : table_(dynamic_shared<unsigned char>(table_offset, kTableBytes)),
        of_lane_(address_of_shared(table_ + lane_index() * sizeof(uint32_t))) {}

  // By the whole block, before its barrier.
  __device__ void create(const QuantizedTask& task) const {
    constexpr uint32_t kWordsOfByte = kWarpThreads / 4;
    for (uint32_t i = threadIdx.x; i < kBytes * kWordsOfByte; i += blockDim.x) {
      const uint32_t byte = i / kWordsOfByte;
      const uint32_t both = static_cast<uint32_t>(task.codebook[byte % 16]) |
                            static_cast<uint32_t>(task.codebook[byte / 16]) << 16;
      store_words(table_ + i * sizeof(Words4), {{both, both, both, both}});
    }
  }

  __device__ Words4 weights(const Words4 (&pieces)[kPieces], uint32_t step) const {
    constexpr uint32_t kRowBytes = kWarpThreads * sizeof(uint32_t);
    Words4 result;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      result.words[i] =
          load_constant_word(of_lane_ + byte_of(pieces[0].words[step], i) * kRowBytes);
    }
    return result;
  }

 private:
  unsigned char* table_;
  SharedAddress of_lane_;
};

}  // namespace millrace::cuda
