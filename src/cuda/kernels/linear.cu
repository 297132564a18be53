#include <bit>

#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/linear_task.cuh"
#include "cuda/kernels/linear_tokens.cuh"
#include "cuda/kernels/linear_wide.h"
#include "cuda/kernels/rms_norm.cuh"
#include "cuda/kernels/weight_stream.cuh"

namespace millrace::cuda {
namespace {

constexpr uint32_t kPartsMax = 8;
constexpr uint32_t kWarpsMax = 10;  // of a block
constexpr uint32_t kWarpsMin = 8;   // of one that has more panels than that
// Chunks of weights that a warp has in shared memory: of blocks with few warps, and of others. Two
// blocks fit a multiprocessor, so that the next kernel's first weights are on their way while this
// one multiplies.
constexpr uint32_t kFewWarps = 6;
constexpr uint32_t kStagesOfFew = 8;
constexpr uint32_t kStages = 5;
// Of an H100 or H200: what is chosen by it is so on every device, since results depend on it.
constexpr uint32_t kMultiprocessors = 132;

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

// Shared memory of a block: stages, then the warps' sums.
__host__ __device__ size_t stage_bytes(uint32_t num_warps, uint32_t num_stages) {
  return size_t{num_warps} * num_stages * kStageWords * sizeof(Words4);
}
template <uint32_t kTokenTiles>
__host__ __device__ size_t sum_bytes(uint32_t num_warps) {
  return size_t{num_warps} * kTokenTiles * kWarpThreads * sizeof(Words4);
}

// The sums of all parts of a panel, in ascending order, to the warp of part 0.
template <uint32_t kTokenTiles>
__device__ void add_parts(
    uint32_t num_parts, uint32_t part, size_t offset_bytes, float (&sums)[kTokenTiles][4]
) {
  constexpr uint32_t kStride = kTokenTiles * kWarpThreads;  // of a warp
  Words4* const shared = dynamic_shared<Words4>(offset_bytes, num_warps() * kStride) +
                         warp_index() * kStride + lane_index();
  if (part != 0) {
#pragma unroll
    for (uint32_t tile = 0; tile < kTokenTiles; ++tile) {
      Words4 words;
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i) words.words[i] = bits_from_float(sums[tile][i]);
      store_words(shared + tile * kWarpThreads, words);
    }
  }
  sync_block();
  if (part == 0) {
#pragma unroll 1
    for (uint32_t other = 1; other < num_parts; ++other) {
#pragma unroll
      for (uint32_t tile = 0; tile < kTokenTiles; ++tile) {
        const Words4 words = load_words(shared + other * kStride + tile * kWarpThreads);
#pragma unroll
        for (uint32_t i = 0; i < 4; ++i) sums[tile][i] += float_from_bits(words.words[i]);
      }
    }
  }
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
      add_parts(task.num_parts(), place.part, stage_bytes(num_warps(), kNumStages), sums);
    }
    if (!is_finisher) continue;
    outputs.add_bias(bias, sums);
    if (task.args.epilogue == LinearEpilogue::kSiluMul) {
      outputs.store_activation(sums);
      continue;
    }
    if (task.args.epilogue == LinearEpilogue::kAddToOut) add_sums(before, sums);
    outputs.store(sums);
  }
}

// Grid: blocks of tokens, which share weights and so lie side by side; panels, or fewer, that take
// every so manieth.
template <uint32_t kTokenTiles, bool kIsFew, bool kIsWhole, uint32_t kNumStages>
__global__ void __launch_bounds__(kWarpsMax* kWarpThreads, kTokenTiles == 1 ? 2 : 1)
    linear_kernel(LinearTask task) {
  allow_next_kernel();
  const WarpPlace place(task);
  WeightStream<kNumStages> stream(task, place);
  const uint32_t first_tile = blockIdx.x * kTokenTiles;
  if (place.part == 0) PanelOutputs<1>(task, place.first_panel, first_tile).prefetch_bias();
  const StoredTokens<kTokenTiles, kIsFew, kIsWhole> tokens(task, first_tile);
  wait_for_previous_kernel();
  multiply_panels<kTokenTiles>(task, place, first_tile, stream, tokens);
}

// Of one tile of tokens. kAddToOut is not for it: what is normed is what would be added to.
template <uint32_t kNumStages>
__global__ void __launch_bounds__(kWarpsMax* kWarpThreads, 2)
    normed_kernel(LinearTask task, RmsNormArgs norm) {
  allow_next_kernel();
  const WarpPlace place(task);
  WeightStream<kNumStages> stream(task, place);
  if (place.part == 0) PanelOutputs<1>(task, place.first_panel, 0).prefetch_bias();
  const NormedTokens tokens(norm, stage_bytes(num_warps(), kNumStages) + sum_bytes<1>(num_warps()));
  float norm_weights[kNormColumns];
  tokens.load_weights(norm_weights);
  wait_for_previous_kernel();
  tokens.norm_all(norm_weights);
  multiply_panels<1>(task, place, 0, stream, tokens);
}

// Of a multiprocessor at most.
uint32_t num_resident_panels(size_t num_panels) {
  return static_cast<uint32_t>(div_ceil(num_panels, size_t{kMultiprocessors}));
}

// Of a block, one for each multiprocessor: all of its panels at once, or as many of them that the
// fewest warps have none in the last round. (num_k_parts() leaves more than a warp each to blocks
// with few panels only.)
uint32_t num_warps_of(const LinearTask& task) {
  const uint32_t num_panels = num_resident_panels(task.num_panels);
  if (num_panels << task.num_parts_log2 <= kWarpsMax) return num_panels << task.num_parts_log2;
  const auto num_turns = [&](uint32_t num_warps) {
    return div_ceil(num_panels, num_warps) * num_warps;
  };
  uint32_t best = kWarpsMin;
  for (uint32_t i = kWarpsMin + 1; i <= kWarpsMax; ++i) {
    if (num_turns(i) < num_turns(best)) best = i;
  }
  return best;
}

// Of a block at least. A layer's products take turns: what adds to the residual has smaller blocks
// than the others. A multiprocessor has room for one of each, and not for two of the larger, so
// that each has one block of a kernel. With two here and there, and none elsewhere, a kernel took
// up to 1.3 times as long, as a multiprocessor can read less than twice its part of the bandwidth.
size_t num_shared_bytes_min(const LinearTask& task) {
  constexpr size_t kLargerBlock = size_t{118} * 1024;
  return task.args.epilogue == LinearEpilogue::kAddToOut ? 0 : kLargerBlock;
}

LaunchShape shape_of(const LinearTask& task, uint32_t num_token_tiles, size_t num_norm_bytes) {
  const uint32_t num_warps = num_warps_of(task);
  const uint32_t num_stages = num_warps <= kFewWarps ? kStagesOfFew : kStages;
  const size_t num_token_blocks =
      div_ceil(task.args.num_tokens, size_t{num_token_tiles} * kTileTokens);
  const uint32_t num_panel_blocks =
      task.num_panels < kMultiprocessors ? task.num_panels : kMultiprocessors;
  const size_t num_bytes = stage_bytes(num_warps, num_stages) +
                           num_token_tiles * sum_bytes<1>(num_warps) + num_norm_bytes;
  const size_t num_bytes_min = num_shared_bytes_min(task);
  return {
      .grid = {grid_width(num_token_blocks), grid_height(num_panel_blocks)},
      .block = {num_warps * kWarpThreads},
      .num_shared_bytes = num_bytes > num_bytes_min ? num_bytes : num_bytes_min};
}

bool has_few_warps(const LaunchShape& shape) {
  return shape.block.x <= kFewWarps * kWarpThreads;
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
  const bool is_silu_mul = args.epilogue == LinearEpilogue::kSiluMul;
  CHECK(args.x != nullptr && args.weights != nullptr, "linear's memory");
  CHECK(args.num_rows > 0 && args.num_inputs > 0, "a matrix has rows and columns");
  CHECK(!is_silu_mul || args.num_rows % 2 == 0, "as many rows of gate as of up");
  CHECK(is_silu_mul ? args.activation != nullptr : args.out != nullptr, "linear's memory");
  CHECK(is_aligned(args.x) && is_aligned(args.weights), "16-byte memory");
  CHECK(args.num_tokens * args.num_rows <= UINT32_MAX, "a result of at most 2^32 - 1 elements");
  const size_t num_panels = num_linear_panels(args.num_rows, args.epilogue);
  const uint32_t num_parts = num_k_parts(num_panels, args.num_inputs);
  return {
      .args = args,
      .num_tokens = static_cast<uint32_t>(args.num_tokens),
      .num_outputs = static_cast<uint32_t>(is_silu_mul ? args.num_rows / 2 : args.num_rows),
      .num_panels = static_cast<uint32_t>(num_panels),
      .num_chunks = static_cast<uint32_t>(num_chunks_of(args.num_inputs)),
      .num_parts_log2 = static_cast<uint32_t>(std::countr_zero(num_parts))};
}

}  // namespace

size_t num_linear_panels(size_t num_rows, LinearEpilogue epilogue) {
  return epilogue == LinearEpilogue::kSiluMul ? div_ceil(num_rows / 2, size_t{8})
                                              : num_panels_of(num_rows);
}

// As many as a multiprocessor has warps for, all of its panels under way at once.
uint32_t num_k_parts(size_t num_panels, size_t num_inputs) {
  const size_t num_chunks = num_chunks_of(num_inputs);
  uint32_t num_parts = 1;
  while (num_parts < kPartsMax && num_parts * 2 <= num_chunks &&
         num_resident_panels(num_panels) * num_parts * 2 <= kWarpsMax) {
    num_parts *= 2;
  }
  return num_parts;
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
  // Every block reads all of it: with 8 tokens of 896 a decode takes longer.
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
