// How the operands of linear() lie in device memory, so that each of the tensor cores' loads is of
// neighbours: padded to whole pieces.
//
// Weights, bfloat16: groups of 128 rows, one after the other. A group is chunks of 64 inputs, a
// chunk 8 panels of 16 rows, a panel's chunk a tile of 512 bytes for each step of 16 inputs, in the
// order of mma.m16n8k16's first operand: with g = lane / 4 and t = lane % 4, lane l has bytes
// [16 l, 16 l + 16): row g at inputs 2t and 2t + 1, row g + 8 at the same, row g at 2t + 8 and 2t +
// 9, row g + 8 at the same. It is the order of wgmma's operand in registers too, a warp having 16
// of its 64 rows. Padding is zeros.
//
// Tokens, bfloat16: groups of 128 tokens, one after the other. A group is chunks of 64 inputs, a
// chunk the group's tiles of 8 tokens, a tile 8 cores of 8 tokens by 8 inputs, a core 8 rows of 16
// bytes: what a matrix in shared memory without swizzling is made of ("core matrix", PTX ISA), and
// half a second operand of mma.m16n8k16, a word a lane. So a group's chunk is one copy to shared
// memory, of 16 KiB, as is one of weights (decision 28 has what a copy for each tile took).
// Up to 32 tokens in all are groups of 8, so that what a decode reads again and again lies
// together, and a tile's chunk is in the order of mma.m16n8k16's second operand: lane l has bytes
// [32 l, 32 l + 32), token g at inputs 2t and 2t + 1 of each of the eight cores. Padding is not
// written, and what is read of it counts for nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace millrace::cuda {

constexpr uint32_t kTileRows = 16;    // of weights: the rows of a product
constexpr uint32_t kTileTokens = 8;   // its columns
constexpr uint32_t kTileInputs = 16;  // of a step
constexpr uint32_t kCoreInputs = 8;
constexpr uint32_t kWeightTileElements = kTileRows * kTileInputs;
constexpr uint32_t kCoreElements = kTileTokens * kCoreInputs;
constexpr uint32_t kChunkSteps = 4;
constexpr uint32_t kChunkInputs = kChunkSteps * kTileInputs;
constexpr uint32_t kChunkCores = kChunkInputs / kCoreInputs;
constexpr uint32_t kGroupPanels = 8;
constexpr uint32_t kWeightChunkElements = kGroupPanels * kChunkSteps * kWeightTileElements;
constexpr uint32_t kTileChunkElements = kTileTokens * kChunkInputs;
constexpr uint32_t kFewTokens = 32;
constexpr uint32_t kLaneChunkElements = kChunkInputs / 4;  // of few tokens
constexpr uint32_t kGroupTilesLog2 = 4;
constexpr uint32_t kGroupTokens = kTileTokens << kGroupTilesLog2;  // of more than those
constexpr uint32_t kGroupChunkElements = kGroupTokens * kChunkInputs;

constexpr size_t num_steps_of(size_t num_inputs) {
  return (num_inputs + kTileInputs - 1) / kTileInputs;
}
constexpr size_t num_chunks_of(size_t num_inputs) {
  return (num_inputs + kChunkInputs - 1) / kChunkInputs;
}
constexpr size_t num_panels_of(size_t num_rows) {
  return (num_rows + kTileRows - 1) / kTileRows;
}

// Elements of a matrix, with padding.
constexpr size_t num_weight_elements(size_t num_rows, size_t num_inputs) {
  const size_t num_groups = (num_panels_of(num_rows) + kGroupPanels - 1) / kGroupPanels;
  return num_groups * num_chunks_of(num_inputs) * kWeightChunkElements;
}

// Where a tile of a panel begins.
constexpr size_t weight_tile(size_t panel, size_t step, size_t num_chunks) {
  const size_t chunk = panel / kGroupPanels * num_chunks + step / kChunkSteps;
  const size_t tile = panel % kGroupPanels * kChunkSteps + step % kChunkSteps;
  return chunk * kWeightChunkElements + tile * kWeightTileElements;
}

// Where an element of a matrix lies.
constexpr size_t weight_element(size_t row, size_t input, size_t num_inputs) {
  const size_t lane = row % 8 * 4 + input % 8 / 2;
  const size_t word = row % kTileRows / 8 + input % kTileInputs / 8 * 2;
  return weight_tile(row / kTileRows, input / kTileInputs, num_chunks_of(num_inputs)) + lane * 8 +
         word * 2 + input % 2;
}

// Tiles of a group, as a power of two.
constexpr uint32_t group_tiles_log2(size_t num_tokens) {
  return num_tokens <= kFewTokens ? 0 : kGroupTilesLog2;
}

// Elements of all tokens, with padding.
constexpr size_t num_token_elements(size_t num_tokens, size_t num_inputs) {
  const size_t group = size_t{kTileTokens} << group_tiles_log2(num_tokens);
  return (num_tokens + group - 1) / group * group * num_chunks_of(num_inputs) * kChunkInputs;
}

// Where a chunk of a tile begins.
constexpr size_t token_tile_chunk(size_t tile, size_t chunk, size_t num_chunks, size_t num_tokens) {
  const uint32_t shift = group_tiles_log2(num_tokens);
  const size_t of_group = tile & ((size_t{1} << shift) - 1);
  return ((((tile >> shift) * num_chunks + chunk) << shift) + of_group) * kTileChunkElements;
}

// From a tile's chunk to the same one of the next tile of its group; of few tokens, of the next
// group.
constexpr size_t token_tile_stride(size_t num_chunks, size_t num_tokens) {
  return (group_tiles_log2(num_tokens) == 0 ? num_chunks : 1) * kTileChunkElements;
}

// Where an element of a token lies; `num_tokens`: all there are. Two inputs from a multiple of two
// on are neighbours; token_columns.cuh has where eight are.
constexpr size_t token_element(size_t token, size_t input, size_t num_inputs, size_t num_tokens) {
  const size_t tile = token_tile_chunk(
      token / kTileTokens, input / kChunkInputs, num_chunks_of(num_inputs), num_tokens
  );
  const size_t row = token % kTileTokens;
  const size_t core = input % kChunkInputs / kCoreInputs;
  const size_t of_core = input % kCoreInputs;
  if (num_tokens > kFewTokens) return tile + core * kCoreElements + row * kCoreInputs + of_core;
  return tile + row * kChunkInputs + of_core / 2 * kLaneChunkElements + core * 2 + of_core % 2;
}

}  // namespace millrace::cuda
