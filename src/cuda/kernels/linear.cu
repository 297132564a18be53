#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/linear_task.cuh"
#include "cuda/kernels/linear_wide.h"
#include "cuda/kernels/rms_norm.cuh"

namespace millrace::cuda {
namespace {

constexpr uint32_t kWarpsMin = 4;  // of a block: panels side by side, where one has fewer parts
constexpr uint32_t kPartsMax = 8;
constexpr uint32_t kTokenTilesMax = 4;  // that share what is loaded of the weights
constexpr uint32_t kStepsAhead = 8;     // of one tile of tokens
// Of an H100 or H200: what is chosen by it is so on every device, since results depend on it.
constexpr size_t kMultiprocessors = 132;

// A lane's half of a tile of tokens: its two words of each step.
struct TokenWords {
  uint32_t words[2] = {};
};

// The tokens of a step as operands, where rms_norm() or another kernel left them, kTokenTiles
// tiles. Of many tokens the tiles lie within a group. kIsWhole: inputs of a multiple of 16, so that
// there is no padding.
template <uint32_t kTokenTiles, bool kIsWhole>
class StoredTokens {
 public:
  __device__ StoredTokens(const LinearTask& task, size_t first_tile)
      : args_(task.args),
        first_token_(first_tile * kTileTokens + lane_index() / 4),
        tokens_(
            task.args.x + token_tile_chunk(first_tile, 0, task.num_chunks, task.args.num_tokens) +
            lane_index() * 2
        ),
        chunk_stride_(size_t{kTileChunkElements} << group_tiles_log2(task.args.num_tokens)),
        tile_stride_(
            task.args.num_tokens <= kFewTokens ? task.num_chunks * kTileChunkElements
                                               : kTileChunkElements
        ) {}

  // Zeros for tokens that are not there, whose memory nobody has written.
  __device__ void load(size_t step, TokenWords (&x)[kTokenTiles]) const {
#pragma unroll
    for (uint32_t tile = 0; tile < kTokenTiles; ++tile) {
      if (first_token_ + tile * kTileTokens >= args_.num_tokens) continue;
      const BFloat16Bits* const from = tokens_ + step / kChunkSteps * chunk_stride_ +
                                       tile * tile_stride_ + step % kChunkSteps * 2 * kCoreElements;
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        x[tile].words[half] =
            load_inputs(from + half * kCoreElements, step * kTileInputs + half * kCoreInputs);
      }
    }
  }

 private:
  // Inputs 2t and 2t + 1 of a core whose first input is `core`.
  __device__ uint32_t load_inputs(const BFloat16Bits* from, size_t core) const {
    if (kIsWhole) return load_word(from);
    const size_t input = core + lane_index() % 4 * 2;
    if (input >= args_.num_inputs) return 0;
    return input + 1 < args_.num_inputs ? load_word(from) : load_word(from) & 0xFFFFU;
  }

  const LinearArgs& args_;
  size_t first_token_;  // the lane's, of the first tile
  const BFloat16Bits* tokens_;
  size_t chunk_stride_;
  size_t tile_stride_;
};

// The same for one tile that the block norms for itself: as cores of as many rows as there are
// tokens, in shared memory.
class NormedTokens {
 public:
  __device__ NormedTokens(const RmsNormArgs& norm, size_t offset_bytes)
      : norm_(norm),
        num_tokens_(static_cast<uint32_t>(norm.num_tokens)),
        sums_(dynamic_shared<float>(offset_bytes, kTileTokens * kNormWarps)),
        cores_(dynamic_shared<Words4>(
            offset_bytes + kSumBytes, norm.hidden / kCoreInputs * norm.num_tokens
        )) {}

  static constexpr size_t kSumBytes = size_t{kTileTokens} * kNormWarps * sizeof(float);
  static size_t num_bytes(const RmsNormArgs& norm) {
    return kSumBytes + norm.hidden * norm.num_tokens * sizeof(BFloat16Bits);
  }

  // By the whole block, before the first load.
  __device__ void norm_all() const {
    for (uint32_t i = warp_index(); i < num_tokens_ * kNormWarps; i += num_warps()) {
      const float* const row = norm_.x + i / kNormWarps * norm_.hidden;
      const float sum = sum_of_norm_warp<true>(row, norm_.hidden, i % kNormWarps);
      if (lane_index() == 0) sums_[i] = sum;
    }
    sync_block();
    // The same in every thread: what they add up to is not worth a barrier.
    float factors[kTileTokens];
#pragma unroll
    for (uint32_t token = 0; token < kTileTokens; ++token) {
      if (token >= num_tokens_) break;
      const float* const sums = sums_ + token * kNormWarps;
      float sum = sums[0];
#pragma unroll
      for (uint32_t i = 1; i < kNormWarps; ++i) sum += sums[i];
      factors[token] = inverse_rms(sum, norm_.hidden, norm_.eps);
    }
    const auto num_cores = static_cast<uint32_t>(norm_.hidden / kCoreInputs);
    for (uint32_t core = threadIdx.x; core < num_cores; core += blockDim.x) {
      const size_t column = size_t{core} * kCoreInputs;
      float weights[kNormColumns];
      load_columns<true>(norm_.weight, column, norm_.hidden, weights);
#pragma unroll
      for (uint32_t token = 0; token < kTileTokens; ++token) {
        if (token >= num_tokens_) break;
        float values[kNormColumns];
        load_columns<true>(norm_.x + token * norm_.hidden, column, norm_.hidden, values);
        cores_[core * num_tokens_ + token] = normed_columns(values, weights, factors[token]);
      }
    }
    sync_block();
  }

  __device__ void load(size_t step, TokenWords (&x)[1]) const {
    const uint32_t token = lane_index() / 4;
    if (token >= num_tokens_) return;
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const Words4& core = cores_[(step * 2 + half) * num_tokens_ + token];
      x[0].words[half] = load_word(&core.words[lane_index() % 4]);
    }
  }

 private:
  const RmsNormArgs& norm_;
  uint32_t num_tokens_;
  float* sums_;  // [num_tokens][kNormWarps]
  Words4* cores_;
};

// One warp's product: a part of a panel for kTokenTiles tiles of tokens. A lane is lane 4 g + t.
// kAhead: steps whose weights are on their way while others are multiplied.
template <uint32_t kTokenTiles, uint32_t kAhead>
class WarpProduct {
 public:
  // One pass over the weights is sure to be all.
  static constexpr bool kIsStreamed = kTokenTiles < kTokenTilesMax;

  // Loads the first weights, which no kernel writes, so before any is waited for.
  __device__ WarpProduct(const LinearTask& task, size_t panel, uint32_t part)
      : weights_(
            task.args.weights + weight_tile(panel, 0, task.num_chunks) +
            lane_index() * kWordElements
        ),
        begin_(task.part_begin(part)),
        end_(task.part_begin(part + 1)) {
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) ahead_[i] = load_weights(begin_ + i);
  }

  template <class Tokens>
  __device__ void add_to(float (&sums)[kTokenTiles][4], const Tokens& tokens) {
    for (size_t first = begin_; first < end_; first += kAhead) {
      TokenWords x[kAhead][kTokenTiles];
#pragma unroll
      for (uint32_t i = 0; i < kAhead; ++i) {
        if (first + i < end_) tokens.load(first + i, x[i]);
      }
#pragma unroll
      for (uint32_t i = 0; i < kAhead; ++i) {
        const Words4 weights = ahead_[i];
        ahead_[i] = load_weights(first + kAhead + i);
        if (first + i >= end_) continue;
#pragma unroll
        for (uint32_t tile = 0; tile < kTokenTiles; ++tile) {
          multiply_fragments(sums[tile], weights.words, x[i][tile].words);
        }
      }
    }
  }

 private:
  __device__ Words4 load_weights(size_t step) const {
    if (step >= end_) return {};
    const BFloat16Bits* const from = weights_ + weight_tile(0, step, 1);
    return kIsStreamed ? load_streaming(from) : load_words(from);
  }

  const BFloat16Bits* weights_;
  size_t begin_;
  size_t end_;
  Words4 ahead_[kAhead];
};

// Of the parts' sums in shared memory.
template <uint32_t kTokenTiles>
__host__ __device__ size_t part_bytes(uint32_t num_warps) {
  return size_t{num_warps} * kTokenTiles * 4 * kWarpThreads * sizeof(float);
}

// The sums of all parts of a panel, in ascending order, to the warp of part 0.
template <uint32_t kTokenTiles>
__device__ void add_parts(uint32_t num_parts, uint32_t part, float (&sums)[kTokenTiles][4]) {
  constexpr uint32_t kStride = kTokenTiles * 4 * kWarpThreads;  // of a warp
  float* const shared = dynamic_shared<float>(0, num_warps() * kStride);
#pragma unroll
  for (uint32_t i = 0; i < kTokenTiles * 4; ++i) {
    shared[warp_index() * kStride + i * kWarpThreads + lane_index()] = sums[i / 4][i % 4];
  }
  sync_block();
  if (part != 0) return;
  const float* const others = shared + warp_index() * kStride + lane_index();
#pragma unroll
  for (uint32_t i = 0; i < kTokenTiles * 4; ++i) {
    for (uint32_t other = 1; other < num_parts; ++other) {
      sums[i / 4][i % 4] += others[other * kStride + i * kWarpThreads];
    }
  }
}

// Which part of which panel a warp does.
struct WarpPlace {
  uint32_t part;
  size_t own_panel;
  size_t panel;  // beyond the last: the last one again, not stored

  __device__ explicit WarpPlace(const LinearTask& task)
      : part(warp_index() % task.num_parts),
        own_panel(
            static_cast<size_t>(blockIdx.y) * (num_warps() / task.num_parts) +
            warp_index() / task.num_parts
        ),
        panel(smaller_size(own_panel, task.num_panels - 1)) {}
};

// What follows a warp's sums, with what they are added to.
template <uint32_t kTokenTiles>
__device__ void finish(
    const LinearTask& task,
    const WarpPlace& place,
    const PanelOutputs<kTokenTiles>& outputs,
    const float (&before)[kTokenTiles][4],
    float (&sums)[kTokenTiles][4]
) {
  if (task.num_parts > 1) add_parts(task.num_parts, place.part, sums);
  if (place.part != 0 || place.own_panel >= task.num_panels) return;
  outputs.add_bias(sums);
  if (task.args.epilogue == LinearEpilogue::kSiluMul) return outputs.store_activation(sums);
  if (task.args.epilogue == LinearEpilogue::kAddToOut) add_sums(before, sums);
  outputs.store(sums);
}

// Grid: blocks of tokens, which share weights and so lie side by side; panels.
template <uint32_t kTokenTiles, uint32_t kAhead, bool kIsWhole>
__global__ void __launch_bounds__(kPartsMax* kWarpThreads, 1) linear_kernel(LinearTask task) {
  const WarpPlace place(task);
  const size_t first_tile = static_cast<size_t>(blockIdx.x) * kTokenTiles;
  allow_next_kernel();
  float sums[kTokenTiles][4] = {};
  float before[kTokenTiles][4] = {};
  const PanelOutputs<kTokenTiles> outputs(task, place.panel, first_tile);
  WarpProduct<kTokenTiles, kAhead> product(task, place.panel, place.part);
  wait_for_previous_kernel();
  if (place.part == 0 && task.args.epilogue == LinearEpilogue::kAddToOut) {
    outputs.load_before(before);
  }
  product.add_to(sums, StoredTokens<kTokenTiles, kIsWhole>(task, first_tile));
  finish(task, place, outputs, before, sums);
}

// Of one tile of tokens. kAddToOut is not for it: what is normed is what would be added to.
__global__ void __launch_bounds__(kPartsMax* kWarpThreads, 2)
    normed_kernel(LinearTask task, RmsNormArgs norm) {
  const WarpPlace place(task);
  allow_next_kernel();
  float sums[1][4] = {};
  const PanelOutputs<1> outputs(task, place.panel, 0);
  WarpProduct<1, kStepsAhead> product(task, place.panel, place.part);
  const NormedTokens tokens(norm, part_bytes<1>(num_warps()));
  wait_for_previous_kernel();
  tokens.norm_all();
  product.add_to(sums, tokens);
  const float before[1][4] = {};
  finish(task, place, outputs, before, sums);
}

// Whether warps have much to read, and a multiprocessor has registers to spare for it, as blocks
// are no more than these.
bool is_deep(const LinearTask& task) {
  return task.num_panels <= kMultiprocessors && task.num_parts == kPartsMax &&
         task.num_steps > size_t{kPartsMax} * 2 * kStepsAhead;
}

uint32_t num_warps_of(const LinearTask& task) {
  return task.num_parts > kWarpsMin ? task.num_parts : kWarpsMin;
}

uint32_t num_panel_blocks(const LinearTask& task) {
  return grid_height(div_ceil(task.num_panels, size_t{num_warps_of(task) / task.num_parts}));
}

template <uint32_t kTokenTiles, uint32_t kAhead, bool kIsWhole>
void launch_linear(StreamHandle stream, const LinearTask& task) {
  const size_t num_token_blocks = div_ceil(task.args.num_tokens, size_t{kTokenTiles} * kTileTokens);
  launch(
      stream,
      {.grid = {grid_width(num_token_blocks), num_panel_blocks(task)},
       .block = {num_warps_of(task) * kWarpThreads},
       .num_shared_bytes = part_bytes<kTokenTiles>(num_warps_of(task))},
      linear_kernel<kTokenTiles, kAhead, kIsWhole>,
      task
  );
}

template <bool kIsWhole>
void launch_linear(StreamHandle stream, const LinearTask& task) {
  const size_t num_tokens = task.args.num_tokens;
  if (num_tokens > 2 * kTileTokens) return launch_linear<kTokenTilesMax, 4, kIsWhole>(stream, task);
  if (num_tokens > kTileTokens) return launch_linear<2, 4, kIsWhole>(stream, task);
  is_deep(task) ? launch_linear<1, 2 * kStepsAhead, kIsWhole>(stream, task)
                : launch_linear<1, kStepsAhead, kIsWhole>(stream, task);
}

LinearTask checked_task(const LinearArgs& args) {
  const bool is_silu_mul = args.epilogue == LinearEpilogue::kSiluMul;
  CHECK(args.x != nullptr && args.weights != nullptr, "linear's memory");
  CHECK(args.num_rows > 0 && args.num_inputs > 0, "a matrix has rows and columns");
  CHECK(!is_silu_mul || args.num_rows % 2 == 0, "as many rows of gate as of up");
  CHECK(is_silu_mul ? args.activation != nullptr : args.out != nullptr, "linear's memory");
  CHECK(is_aligned(args.x) && is_aligned(args.weights), "16-byte memory");
  const size_t num_panels = num_linear_panels(args.num_rows, args.epilogue);
  return {
      .args = args,
      .num_outputs = is_silu_mul ? args.num_rows / 2 : args.num_rows,
      .num_panels = num_panels,
      .num_steps = num_steps_of(args.num_inputs),
      .num_chunks = num_chunks_of(args.num_inputs),
      .num_parts = num_k_parts(num_panels, args.num_inputs)};
}

}  // namespace

size_t num_linear_panels(size_t num_rows, LinearEpilogue epilogue) {
  return epilogue == LinearEpilogue::kSiluMul ? div_ceil(num_rows / 2, size_t{8})
                                              : num_panels_of(num_rows);
}

// As many that the warps of all parts fill a device, 16 on each multiprocessor. With 6 a decode of
// 7B took 1.2 times as long.
uint32_t num_k_parts(size_t num_panels, size_t num_inputs) {
  constexpr size_t kWarpsWanted = kMultiprocessors * 16;
  const size_t num_chunks = num_chunks_of(num_inputs);
  uint32_t num_parts = 1;
  while (num_parts < kPartsMax && num_parts * 2 <= num_chunks &&
         num_panels * num_parts < kWarpsWanted) {
    num_parts *= 2;
  }
  return num_parts;
}

void linear(StreamHandle stream, const LinearArgs& args) {
  if (args.num_tokens == 0) return;
  const LinearTask task = checked_task(args);
  if (is_for_linear_wide(task)) return linear_wide(stream, task);
  const bool is_whole = args.num_inputs % kTileInputs == 0;
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
      args.num_inputs % kTileInputs != 0) {
    rms_norm(stream, norm);
    return linear(stream, args);
  }
  const LinearTask task = checked_task(args);
  launch(
      stream,
      {.grid = {1, num_panel_blocks(task)},
       .block = {num_warps_of(task) * kWarpThreads},
       .num_shared_bytes = part_bytes<1>(num_warps_of(task)) + NormedTokens::num_bytes(norm)},
      normed_kernel,
      task,
      norm
  );
}

}  // namespace millrace::cuda
