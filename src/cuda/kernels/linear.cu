#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/linear_task.cuh"
#include "cuda/kernels/linear_tokens.cuh"
#include "cuda/kernels/linear_wide.h"
#include "cuda/kernels/part_sums.cuh"
#include "cuda/kernels/product_blocks.h"
#include "cuda/kernels/rms_norm.cuh"
#include "cuda/kernels/weight_stream.cuh"

namespace millrace::cuda {
namespace {

// The part's sum of a panel's products.
template <uint32_t kTokenTiles, class Stream, class Tokens>
__device__ void add_part(Stream& stream, const Tokens& tokens, float (&sums)[kTokenTiles][4]) {
  constexpr uint32_t kAhead = Tokens::kAhead;
  const uint32_t end = stream.begin() + stream.num_chunks();
  TokenWords x[kAhead][kTokenTiles];
#pragma unroll
  for (uint32_t i = 0; i < kAhead; ++i) {
    if (stream.begin() + i < end) tokens.load(stream.begin() + i, x[i]);
  }
#pragma unroll 1
  for (uint32_t first = stream.begin(); first < end; first += kAhead) {
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) {
      if (first + i >= end) break;
      Words4 weights[kChunkSteps];
      stream.take(weights);
#pragma unroll
      for (uint32_t step = 0; step < kChunkSteps; ++step) {
#pragma unroll
        for (uint32_t tile = 0; tile < kTokenTiles; ++tile) {
          const uint32_t words[2] = {
              x[i][tile].of_core(2 * step), x[i][tile].of_core(2 * step + 1)};
          multiply_fragments(sums[tile], weights[step].words, words);
        }
      }
      if (first + i + kAhead < end) tokens.load(first + i + kAhead, x[i]);
    }
  }
}

// Shared memory of a block: stages, then the warps' sums, then normed tokens.
__device__ size_t stage_bytes(uint32_t num_stages) {
  return size_t{num_warps()} * num_stages * kStageBytes;
}

// All panels of a warp, and what follows their sums. Those that are summed in parts are one a warp.
template <uint32_t kTokenTiles, uint32_t kNumStages, class Tokens>
__device__ void multiply_panels(
    const LinearTask& task,
    const WarpPlace& place,
    uint32_t first_tile,
    WeightStream<kNumStages>& stream,
    const Tokens& tokens
) {
  // The block's warps go on together, as far as the first of them does.
#pragma unroll 1
  for (uint32_t first = blockIdx.y; first < task.num_panels; first += place.panel_stride) {
    const uint32_t panel = first - blockIdx.y + place.first_panel;
    const bool has_panel = panel < task.num_panels;
    const bool is_finisher = place.part == 0 && has_panel;
    const PanelOutputs<kTokenTiles> outputs(task, panel, first_tile);
    float sums[kTokenTiles][4] = {};
    float before[kTokenTiles][4] = {};
    float bias[2] = {};
    if (is_finisher && task.args.epilogue == LinearEpilogue::kAddToOut) outputs.load_before(before);
    if (is_finisher) outputs.load_bias(bias);
    if (has_panel) add_part(stream, tokens, sums);
    if (task.num_parts() > 1) {
      add_parts(task.num_parts(), place.part, stage_bytes(kNumStages), sums);
    }
    if (is_finisher) outputs.finish(bias, before, sums);
  }
}

// Grid: blocks of tokens, which share weights and so lie side by side; panels, or fewer, that take
// every so manieth.
template <uint32_t kTokenTiles, bool kIsFew, bool kIsWhole, uint32_t kNumStages>
__global__ void __launch_bounds__(kBlockWarpsMax* kWarpThreads, kTokenTiles == 1 ? 2 : 1)
    linear_kernel(LinearTask task) {
  allow_next_kernel();
  const WarpPlace place(task.num_parts_log2);
  WeightStream<kNumStages> stream(task, place);
  const uint32_t first_tile = blockIdx.x * kTokenTiles;
  if (place.part == 0) PanelOutputs<1>(task, place.first_panel, first_tile).prefetch_bias();
  const StoredTokens<kTokenTiles, kIsFew, kIsWhole> tokens(task, first_tile);
  wait_for_previous_kernel();
  multiply_panels<kTokenTiles>(task, place, first_tile, stream, tokens);
}

// Of one tile of tokens. kAddToOut is not for it: what is normed is what would be added to.
template <uint32_t kNumStages>
__global__ void __launch_bounds__(kBlockWarpsMax* kWarpThreads, 2)
    normed_kernel(LinearTask task, RmsNormArgs norm) {
  allow_next_kernel();
  const WarpPlace place(task.num_parts_log2);
  WeightStream<kNumStages> stream(task, place);
  if (place.part == 0) PanelOutputs<1>(task, place.first_panel, 0).prefetch_bias();
  const NormedTokens tokens(norm, stage_bytes(kNumStages) + sum_bytes(num_warps(), 1));
  float norm_weights[kNormColumns];
  tokens.load_weights(norm_weights);
  wait_for_previous_kernel();
  tokens.norm_all(norm_weights);
  multiply_panels<1>(task, place, 0, stream, tokens);
}

LaunchShape shape_of(const LinearTask& task, uint32_t num_token_tiles, size_t num_norm_bytes) {
  const uint32_t num_warps = num_block_warps(task.num_panels, task.num_parts());
  return product_shape(
      {.num_tokens = task.args.num_tokens,
       .num_token_tiles = num_token_tiles,
       .num_panels = task.num_panels,
       .num_warps = num_warps,
       .num_warp_bytes = warp_stage_bytes(num_warps),
       .num_other_bytes = num_norm_bytes,
       .epilogue = task.args.epilogue}
  );
}

bool has_few_warps(const LaunchShape& shape) {
  return shape.block.x <= kFewBlockWarps * kWarpThreads;
}

template <uint32_t kTokenTiles, bool kIsFew, bool kIsWhole>
void launch_linear(StreamHandle stream, const LinearTask& task) {
  const LaunchShape shape = shape_of(task, kTokenTiles, 0);
  has_few_warps(shape)
      ? launch(stream, shape, linear_kernel<kTokenTiles, kIsFew, kIsWhole, kStagesOfFew>, task)
      : launch(stream, shape, linear_kernel<kTokenTiles, kIsFew, kIsWhole, kStages>, task);
}

template <bool kIsWhole>
void launch_linear(StreamHandle stream, const LinearTask& task) {
  if (task.num_tokens > kFewTokens) {
    return launch_linear<kTokenTilesMax, false, kIsWhole>(stream, task);
  }
  if (task.num_tokens > 2 * kTileTokens) {
    return launch_linear<kTokenTilesMax, true, kIsWhole>(stream, task);
  }
  task.num_tokens > kTileTokens ? launch_linear<2, true, kIsWhole>(stream, task)
                                : launch_linear<1, true, kIsWhole>(stream, task);
}

LinearTask checked_task(const LinearArgs& args) {
  CHECK(args.num_rows > 0 && args.num_inputs > 0, "a matrix has rows and columns");
  const size_t num_panels = num_linear_panels(args.num_rows, args.epilogue);
  return checked_linear_task(
      args, num_panels, num_k_parts(num_panels, num_chunks_of(args.num_inputs))
  );
}

}  // namespace

size_t num_linear_panels(size_t num_rows, LinearEpilogue epilogue) {
  return epilogue == LinearEpilogue::kSiluMul ? div_ceil(num_rows / 2, size_t{8})
                                              : num_panels_of(num_rows);
}

void linear(StreamHandle stream, const LinearArgs& args) {
  if (args.num_tokens == 0) return;
  const LinearTask task = checked_task(args);
  if (is_for_linear_wide(task)) return linear_wide(stream, task);
  const bool is_whole = args.num_inputs % kChunkInputs == 0;
  is_whole ? launch_linear<true>(stream, task) : launch_linear<false>(stream, task);
}

void linear_of_normed(StreamHandle stream, const RmsNormArgs& norm, const LinearArgs& args) {
  if (args.num_tokens == 0) return;
  CHECK(args.x == norm.out && args.num_tokens == norm.num_tokens, "what is normed is multiplied");
  CHECK(args.num_inputs == norm.hidden, "what is normed is multiplied");
  CHECK(args.epilogue != LinearEpilogue::kAddToOut, "what is normed would be added to");
  // Every block reads all of it: with 8 tokens of 896 a decode took longer (decision 28).
  constexpr size_t kElementsMax = 4096;
  if (args.num_tokens > kTileTokens || args.num_tokens * args.num_inputs > kElementsMax ||
      args.num_inputs % kChunkInputs != 0) {
    rms_norm(stream, norm);
    return linear(stream, args);
  }
  const LinearTask task = checked_task(args);
  const LaunchShape shape = shape_of(task, 1, NormedTokens::num_bytes(norm));
  has_few_warps(shape) ? launch(stream, shape, normed_kernel<kStagesOfFew>, task, norm)
                       : launch(stream, shape, normed_kernel<kStages>, task, norm);
}

}  // namespace millrace::cuda
