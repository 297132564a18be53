// How the weights of linear_quantized() lie in device memory: the codes of a QuantizedMatrix in the
// order in which the tensor cores take them.
//
// Panels of 16 rows, one after the other; of kSiluMul 8 rows of gate and 8 of up. A panel is its
// codes, then its scales, then the rows' scales, 16 of float32. Chunks of 64 inputs go in pairs,
// the last one padded. A chunk's codes: with g = lane / 4 and t = lane % 4, lane l has those of row
// g and row g + 8 in the order in which operand_tiles.h has a lane's weights: 8 codes a step of 16
// inputs, 32 a chunk. int8: bytes, two pieces of 512 bytes of two steps each, of which lane l has
// bytes [16 l, 16 l + 16). int4: halves of bytes, the first in the lower one; one such piece.
// A pair's scales: 32 bytes, four for each g: of the first chunk row g's and row g + 8's, then of
// the second. Padding is zeros.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/kernels/operand_tiles.h"

namespace millrace::cuda {

constexpr uint32_t kPairChunks = 2;
constexpr uint32_t kPairScaleBytes = kPairChunks * kTileRows;
constexpr uint32_t kLaneCodes = kTileRows * kChunkInputs / 32;  // of a chunk
constexpr uint32_t kPieceBytes = 512;                           // what a warp's lanes have at once
constexpr uint32_t kRowScaleBytes = kTileRows * sizeof(float);

constexpr uint32_t chunk_code_bytes(uint32_t num_bits) {
  return kTileRows * kChunkInputs * num_bits / 8;
}

// Where things lie within a panel.
struct CodePanelLayout {
  uint32_t num_bits = 8;  // of a code: 8 or 4
  uint32_t num_pairs = 0;

  constexpr CodePanelLayout(uint32_t bits, size_t num_inputs)
      : num_bits(bits),
        num_pairs(static_cast<uint32_t>((num_chunks_of(num_inputs) + kPairChunks - 1) / kPairChunks)
        ) {}

  constexpr uint32_t pair_bytes() const { return kPairChunks * chunk_code_bytes(num_bits); }
  constexpr uint32_t scales_begin() const { return num_pairs * pair_bytes(); }
  constexpr uint32_t row_scales_begin() const {
    return scales_begin() + num_pairs * kPairScaleBytes;
  }
  constexpr uint32_t num_bytes() const { return row_scales_begin() + kRowScaleBytes; }

  // Of the codes that a lane has of a chunk: the byte where the first of every 16 bytes' begins.
  constexpr uint32_t lane_codes(uint32_t chunk, uint32_t piece, uint32_t lane) const {
    return chunk * chunk_code_bytes(num_bits) + piece * kPieceBytes + lane * 16;
  }
  constexpr uint32_t scale(uint32_t chunk, uint32_t row) const {
    return scales_begin() + chunk / kPairChunks * kPairScaleBytes + row % 8 * 4 +
           chunk % kPairChunks * 2 + row / 8;
  }
};

}  // namespace millrace::cuda
