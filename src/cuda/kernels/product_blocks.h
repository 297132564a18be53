// How the panels of a decode's product are dealt to the blocks and warps of a device: one block for
// each multiprocessor, whose warps have all of its panels at once, in parts where there are few.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "base/math.h"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/operand_tiles.h"
#include "cuda/launch_shape.h"

namespace millrace::cuda {

constexpr uint32_t kPartsMax = 8;
constexpr uint32_t kBlockWarpsMax = 10;
constexpr uint32_t kBlockWarpsMin = 8;  // of a block that has more panels than that
// Of an H100 or H200: what is chosen by it is so on every device, since results depend on it.
constexpr uint32_t kMultiprocessors = 132;

// Of a multiprocessor at most.
constexpr uint32_t num_resident_panels(size_t num_panels) {
  return static_cast<uint32_t>(div_ceil(num_panels, size_t{kMultiprocessors}));
}

// Parts of the inputs that are summed apart, of a shape alone: 1, 2, 4 or 8. Part p of P has chunks
// of 64 inputs [p * chunks / P, (p + 1) * chunks / P). As many as a block has warps for.
constexpr uint32_t num_k_parts(size_t num_panels, size_t num_chunks) {
  uint32_t num_parts = 1;
  while (num_parts < kPartsMax && num_parts * 2 <= num_chunks &&
         num_resident_panels(num_panels) * num_parts * 2 <= kBlockWarpsMax) {
    num_parts *= 2;
  }
  return num_parts;
}

// Of a block: for all parts of all of its panels at once, or, of more panels (which have one part:
// num_k_parts()), as many that the fewest have none in the last round.
constexpr uint32_t num_block_warps(size_t num_panels, uint32_t num_parts) {
  const uint32_t num_resident = num_resident_panels(num_panels);
  if (num_resident * num_parts <= kBlockWarpsMax) return num_resident * num_parts;
  const auto num_turns = [num_resident](uint32_t num_warps) {
    return div_ceil(num_resident, num_warps) * num_warps;
  };
  uint32_t best = kBlockWarpsMin;
  for (uint32_t i = kBlockWarpsMin + 1; i <= kBlockWarpsMax; ++i) {
    if (num_turns(i) < num_turns(best)) best = i;
  }
  return best;
}

// How many parts a panel's inputs have, and warps a block.
struct PanelShare {
  uint32_t num_parts = 1;
  uint32_t num_warps = 1;
};

constexpr uint32_t kCodeWarpsMax = 12;
constexpr uint32_t kSmallerBlockWarpsMax = 8;  // of kAddToOut: see product_shape()

// Of codes, which take about as long to become weights as to come: as even a share as can be for
// the four processors of a multiprocessor, to which warps go in turn. The least time is taken, by
// what an H100 took for a pair of chunks (decision 30): a warp alone waits for itself two thirds of
// the time.
constexpr PanelShare code_share(size_t num_panels, uint32_t num_pairs, LinearEpilogue epilogue) {
  constexpr uint32_t kProcessors = 4;
  constexpr uint32_t kTimeOfTurns[] = {0, 21, 24, 30};  // for so many warps of a processor
  constexpr uint32_t kTimeOfSums = 15;                  // of parts, once a round
  static_assert(kCodeWarpsMax / kProcessors < std::size(kTimeOfTurns));
  const uint32_t num_resident = num_resident_panels(num_panels);
  const uint32_t num_warps_max =
      epilogue == LinearEpilogue::kAddToOut ? kSmallerBlockWarpsMax : kCodeWarpsMax;
  PanelShare best;
  uint32_t least = UINT32_MAX;
  for (uint32_t num_parts = 1; num_parts <= kPartsMax && num_parts <= num_pairs; num_parts *= 2) {
    for (uint32_t at_once = 1; at_once <= num_resident; ++at_once) {
      const uint32_t num_warps = num_parts * at_once;
      if (num_warps > num_warps_max) break;
      const uint32_t num_rounds = div_ceil(num_resident, at_once);
      const uint32_t of_pair = kTimeOfTurns[div_ceil(num_warps, kProcessors)];
      const uint32_t of_round =
          of_pair * div_ceil(num_pairs, num_parts) + (num_parts > 1 ? kTimeOfSums : 0);
      if (num_rounds * of_round >= least) continue;
      least = num_rounds * of_round;
      best = {num_parts, num_warps};
    }
  }
  return best;
}

// Chunks of weights that a warp has in shared memory, of 2 KiB each: of blocks with few warps, and
// of others.
constexpr uint32_t kStageBytes = kChunkSteps * kWeightTileElements * 2;
constexpr uint32_t kFewBlockWarps = 6;
constexpr uint32_t kStagesOfFew = 8;
constexpr uint32_t kStages = 5;

// Of the warps' sums of a panel: part_sums.cuh.
constexpr size_t sum_bytes(uint32_t num_warps, uint32_t num_token_tiles) {
  return size_t{num_warps} * num_token_tiles * kTileRows * kTileTokens * sizeof(float);
}

// What a warp has of bfloat16 weights in shared memory.
constexpr size_t warp_stage_bytes(uint32_t num_warps) {
  return size_t{num_warps <= kFewBlockWarps ? kStagesOfFew : kStages} * kStageBytes;
}

struct ProductBlocks {
  size_t num_tokens = 0;
  uint32_t num_token_tiles = 0;  // of a block
  size_t num_panels = 0;
  uint32_t num_warps = 0;
  // Of shared memory: a warp's weights under way, and what the block has beside them and sums.
  size_t num_warp_bytes = 0;
  size_t num_other_bytes = 0;
  LinearEpilogue epilogue = LinearEpilogue::kStore;
};

// Grid: blocks of tokens, which share weights and so lie side by side; of panels.
//
// A layer's products take turns: what adds to the residual has smaller blocks than the others. A
// multiprocessor has room for one of each, and not for two of the larger, so that each has one
// block of a kernel, and beside it one of the next, whose first weights are on their way. In one
// size a kernel took up to 1.3 times as long; that some multiprocessors had two of its blocks and
// others none is inferred (decision 29).
inline LaunchShape product_shape(const ProductBlocks& blocks) {
  constexpr size_t kLargerBlock = size_t{118} * 1024;
  const size_t num_bytes = blocks.num_warps * blocks.num_warp_bytes +
                           sum_bytes(blocks.num_warps, blocks.num_token_tiles) +
                           blocks.num_other_bytes;
  const size_t num_bytes_min = blocks.epilogue == LinearEpilogue::kAddToOut ? 0 : kLargerBlock;
  const size_t tokens_of_block = size_t{blocks.num_token_tiles} * kTileTokens;
  const size_t num_panel_blocks =
      blocks.num_panels < kMultiprocessors ? blocks.num_panels : kMultiprocessors;
  return {
      .grid =
          {grid_width(div_ceil(blocks.num_tokens, tokens_of_block)), grid_height(num_panel_blocks)},
      .block = {blocks.num_warps * kWarpThreads},
      .num_shared_bytes = num_bytes > num_bytes_min ? num_bytes : num_bytes_min};
}

}  // namespace millrace::cuda
