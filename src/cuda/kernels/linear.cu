#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/linear_task.cuh"
#include "cuda/kernels/linear_wide.h"
#include "cuda/kernels/rms_norm.cuh"

namespace millrace::cuda {
namespace {

constexpr uint32_t kPartsMax = 16;
constexpr uint32_t kWarpsMax = 16;      // of a block
constexpr uint32_t kTokenTilesMax = 4;  // that share what is loaded of the weights
constexpr uint32_t kStages = 3;         // chunks of weights that a warp has in shared memory
constexpr uint32_t kStageBytes = kChunkSteps * kWeightTileElements * sizeof(BFloat16Bits);
// Of an H100 or H200: what is chosen by it is so on every device, since results depend on it.
constexpr size_t kMultiprocessors = 132;
// Of a multiprocessor, by registers and by shared memory: two blocks of the most warps.
constexpr size_t kResidentWarps = 2 * kWarpsMax;

// A lane's half of a tile of tokens: its two words of each step.
struct TokenWords {
  uint32_t words[2] = {};
};

// The tokens of a chunk as operands, where rms_norm() or another kernel left them, kTokenTiles
// tiles. Of many tokens the tiles lie within a group. kIsWhole: inputs of a multiple of 64, so that
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
  __device__ void load(size_t chunk, TokenWords (&x)[kChunkSteps][kTokenTiles]) const {
#pragma unroll
    for (uint32_t tile = 0; tile < kTokenTiles; ++tile) {
      if (first_token_ + tile * kTileTokens >= args_.num_tokens) continue;
      const BFloat16Bits* const from = tokens_ + chunk * chunk_stride_ + tile * tile_stride_;
#pragma unroll
      for (uint32_t core = 0; core < kChunkSteps * 2; ++core) {
        x[core / 2][tile].words[core % 2] = load_inputs(
            from + core * kCoreElements, chunk * kChunkInputs + core * kCoreInputs
        );
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

  // The thread's first weights, and the block's others to the cache that all share: no kernel
  // writes them.
  __device__ void load_weights(float (&weights)[kNormColumns]) const {
    constexpr uint32_t kLineElements = 32;
    const uint32_t i = threadIdx.x * kLineElements;
    if (i < norm_.hidden) prefetch(norm_.weight + i);
    load_columns<true>(norm_.weight, size_t{threadIdx.x} * kNormColumns, norm_.hidden, weights);
  }

  // By the whole block, before the first load.
  __device__ void norm_all(float (&weights)[kNormColumns]) const {
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
      if (core != threadIdx.x) load_columns<true>(norm_.weight, column, norm_.hidden, weights);
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

  __device__ void load(size_t chunk, TokenWords (&x)[kChunkSteps][1]) const {
    constexpr uint32_t kCores = kChunkSteps * 2;
    const uint32_t token = lane_index() / 4;
    if (token >= num_tokens_) return;
#pragma unroll
    for (uint32_t i = 0; i < kCores; ++i) {
      const Words4& core = cores_[(chunk * kCores + i) * num_tokens_ + token];
      x[i / 2][0].words[i % 2] = load_word(&core.words[lane_index() % 4]);
    }
  }

 private:
  const RmsNormArgs& norm_;
  uint32_t num_tokens_;
  float* sums_;  // [num_tokens][kNormWarps]
  Words4* cores_;
};

// What a warp does: a part of some panels, one after the other. Panels go round the blocks first,
// so that multiprocessors differ by one of them at most.
struct WarpPlace {
  uint32_t part;
  uint32_t first_panel;
  uint32_t panel_stride;

  __device__ explicit WarpPlace(const LinearTask& task)
      : part(warp_index() % task.num_parts),
        first_panel(warp_index() / task.num_parts * gridDim.y + blockIdx.y),
        panel_stride(num_warps() / task.num_parts * gridDim.y) {}
};

// The weights of a warp's part of its panels on their way through shared memory, chunk by chunk,
// kStages of them. A lane copies what it reads itself, so that nobody waits for another.
class WeightStream {
 public:
  // Asks for the first weights, which no kernel writes, so before any is waited for.
  __device__ WeightStream(const LinearTask& task, const WarpPlace& place)
      : task_(task),
        place_(place),
        panel_(place.first_panel),
        num_left_(num_chunks()),
        from_(first_of_panel()) {
#pragma unroll
    for (uint32_t i = 0; i + 1 < kStages; ++i) ask();
  }

  // The part's chunks of each panel.
  __device__ uint32_t begin() const { return task_.part_begin(place_.part); }
  __device__ uint32_t end() const { return task_.part_begin(place_.part + 1); }

  // The next chunk; and asks for one more.
  __device__ void take(Words4 (&weights)[kChunkSteps]) {
    wait_for_copies<kStages - 2>();
    const Words4* const from = stage(taken_);
#pragma unroll
    for (uint32_t i = 0; i < kChunkSteps; ++i) weights[i] = load_words(from + i * kWarpThreads);
    taken_ = next_stage(taken_);
    ask();
  }

 private:
  static constexpr uint32_t kStageWords = kStageBytes / sizeof(Words4);

  // For the chunk after the last one asked for; nothing beyond the last panel.
  __device__ void ask() {
    if (panel_ < task_.num_panels) {
      Words4* const to = stage(asked_);
#pragma unroll
      for (uint32_t i = 0; i < kChunkSteps; ++i) {
        copy_streaming(to + i * kWarpThreads, from_ + i * kWeightTileElements);
      }
      from_ += kWeightChunkElements;
      if (--num_left_ == 0) {
        panel_ += place_.panel_stride;
        num_left_ = num_chunks();
        from_ = first_of_panel();
      }
    }
    asked_ = next_stage(asked_);
    end_copies();
  }

  __device__ uint32_t num_chunks() const { return end() - begin(); }
  __device__ const BFloat16Bits* first_of_panel() const {
    return task_.args.weights + weight_tile(panel_, size_t{begin()} * kChunkSteps, task_.num_chunks) +
           lane_index() * kWordElements;
  }

  __device__ static Words4* stage(uint32_t index) {
    return dynamic_shared<Words4>(0, num_warps() * kStages * kStageWords) +
           (warp_index() * kStages + index) * kStageWords + lane_index();
  }
  __device__ static uint32_t next_stage(uint32_t index) {
    return index + 1 == kStages ? 0 : index + 1;
  }

  const LinearTask& task_;
  const WarpPlace& place_;
  uint32_t panel_;  // of the next chunk to ask for
  uint32_t num_left_;  // of the panel
  const BFloat16Bits* from_;
  uint32_t asked_ = 0;  // the stage of the next
  uint32_t taken_ = 0;
};

// The part's sum of a panel's products. Tokens are loaded a chunk ahead.
template <uint32_t kTokenTiles, class Tokens>
__device__ void add_part(
    WeightStream& stream, const Tokens& tokens, float (&sums)[kTokenTiles][4]
) {
  const uint32_t end = stream.end();
  TokenWords next[kChunkSteps][kTokenTiles];
  tokens.load(stream.begin(), next);
  for (uint32_t chunk = stream.begin(); chunk < end; ++chunk) {
    TokenWords x[kChunkSteps][kTokenTiles];
#pragma unroll
    for (uint32_t i = 0; i < kChunkSteps * kTokenTiles; ++i) {
      x[i / kTokenTiles][i % kTokenTiles] = next[i / kTokenTiles][i % kTokenTiles];
    }
    if (chunk + 1 < end) tokens.load(chunk + 1, next);
    Words4 weights[kChunkSteps];
    stream.take(weights);
#pragma unroll
    for (uint32_t i = 0; i < kChunkSteps; ++i) {
#pragma unroll
      for (uint32_t tile = 0; tile < kTokenTiles; ++tile) {
        multiply_fragments(sums[tile], weights[i].words, x[i][tile].words);
      }
    }
  }
}

// Shared memory of a block: stages, then the warps' sums.
__host__ __device__ size_t stage_bytes(uint32_t num_warps) {
  return size_t{num_warps} * kStages * kStageBytes;
}
template <uint32_t kTokenTiles>
__host__ __device__ size_t sum_bytes(uint32_t num_warps) {
  return size_t{num_warps} * kTokenTiles * kWarpThreads * sizeof(Words4);
}

// The sums of all parts of a panel, in ascending order, to the warp of part 0.
template <uint32_t kTokenTiles>
__device__ void add_parts(uint32_t num_parts, uint32_t part, float (&sums)[kTokenTiles][4]) {
  constexpr uint32_t kStride = kTokenTiles * kWarpThreads;  // of a warp
  auto* const shared = dynamic_shared<Words4>(stage_bytes(num_warps()), num_warps() * kStride) +
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
#pragma unroll 4
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

// All panels of a warp, and what follows their sums.
template <uint32_t kTokenTiles, class Tokens>
__device__ void multiply_panels(
    const LinearTask& task,
    const WarpPlace& place,
    size_t first_tile,
    WeightStream& stream,
    const Tokens& tokens
) {
  // The block's warps go on together, as far as the one with the first panel does.
  for (uint32_t first = blockIdx.y; first < task.num_panels; first += place.panel_stride) {
    const uint32_t panel = first - blockIdx.y + place.first_panel;
    const bool has_panel = panel < task.num_panels;
    const PanelOutputs<kTokenTiles> outputs(task, panel, first_tile);
    float sums[kTokenTiles][4] = {};
    float before[kTokenTiles][4] = {};
    float bias[2] = {};
    const bool is_finisher = place.part == 0 && has_panel;
    if (is_finisher && task.args.epilogue == LinearEpilogue::kAddToOut) outputs.load_before(before);
    if (is_finisher) outputs.load_bias(bias);
    if (has_panel) add_part(stream, tokens, sums);
    if (task.num_parts > 1) {
      if (first != blockIdx.y) sync_block();  // the sums of the panels before were added
      add_parts(task.num_parts, place.part, sums);
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
template <uint32_t kTokenTiles, bool kIsWhole>
__global__ void __launch_bounds__(kWarpsMax* kWarpThreads, kTokenTiles == 1 ? 2 : 1)
    linear_kernel(LinearTask task) {
  allow_next_kernel();
  const WarpPlace place(task);
  WeightStream stream(task, place);
  wait_for_previous_kernel();
  const size_t first_tile = static_cast<size_t>(blockIdx.x) * kTokenTiles;
  const StoredTokens<kTokenTiles, kIsWhole> tokens(task, first_tile);
  multiply_panels<kTokenTiles>(task, place, first_tile, stream, tokens);
}

// Of one tile of tokens. kAddToOut is not for it: what is normed is what would be added to.
__global__ void __launch_bounds__(kWarpsMax* kWarpThreads, 2)
    normed_kernel(LinearTask task, RmsNormArgs norm) {
  allow_next_kernel();
  const WarpPlace place(task);
  WeightStream stream(task, place);
  const NormedTokens tokens(norm, stage_bytes(num_warps()) + sum_bytes<1>(num_warps()));
  float norm_weights[kNormColumns];
  tokens.load_weights(norm_weights);
  if (place.part == 0) PanelOutputs<1>(task, place.first_panel, 0).prefetch_bias();
  wait_for_previous_kernel();
  tokens.norm_all(norm_weights);
  multiply_panels<1>(task, place, 0, stream, tokens);
}

// Groups of a block, each of which does panels of its own: more than one where there are more
// panels than blocks can be under way.
uint32_t num_warps_of(const LinearTask& task) {
  const size_t num_groups = div_ceil(size_t{task.num_panels}, kMultiprocessors * 2);
  const uint32_t num_groups_max = kWarpsMax / task.num_parts;
  return task.num_parts *
         (num_groups < num_groups_max ? static_cast<uint32_t>(num_groups) : num_groups_max);
}

uint32_t num_panel_blocks(const LinearTask& task, size_t num_resident_warps) {
  const uint32_t num_warps = num_warps_of(task);
  const size_t num_wanted = div_ceil(size_t{task.num_panels}, size_t{num_warps / task.num_parts});
  const size_t num_resident = kMultiprocessors * (num_resident_warps / num_warps);
  return grid_height(num_wanted < num_resident ? num_wanted : num_resident);
}

template <uint32_t kTokenTiles, bool kIsWhole>
void launch_linear(StreamHandle stream, const LinearTask& task) {
  const size_t num_token_blocks = div_ceil(task.args.num_tokens, size_t{kTokenTiles} * kTileTokens);
  const uint32_t num_warps = num_warps_of(task);
  launch(
      stream,
      {.grid =
           {grid_width(num_token_blocks),
            num_panel_blocks(task, kTokenTiles == 1 ? kResidentWarps : kResidentWarps / 2)},
       .block = {num_warps * kWarpThreads},
       .num_shared_bytes = stage_bytes(num_warps) + sum_bytes<kTokenTiles>(num_warps)},
      linear_kernel<kTokenTiles, kIsWhole>,
      task
  );
}

template <bool kIsWhole>
void launch_linear(StreamHandle stream, const LinearTask& task) {
  const size_t num_tokens = task.args.num_tokens;
  if (num_tokens > 2 * kTileTokens) return launch_linear<kTokenTilesMax, kIsWhole>(stream, task);
  if (num_tokens > kTileTokens) return launch_linear<2, kIsWhole>(stream, task);
  launch_linear<1, kIsWhole>(stream, task);
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
      .num_panels = static_cast<uint32_t>(num_panels),
      .num_chunks = static_cast<uint32_t>(num_chunks_of(args.num_inputs)),
      .num_parts = num_k_parts(num_panels, args.num_inputs)};
}

}  // namespace

size_t num_linear_panels(size_t num_rows, LinearEpilogue epilogue) {
  return epilogue == LinearEpilogue::kSiluMul ? div_ceil(num_rows / 2, size_t{8})
                                              : num_panels_of(num_rows);
}

// As many that each multiprocessor has 48 warps' work, whose panels then go round evenly. More than
// eight only of long rows: a prompt's products wait where a part ends.
uint32_t num_k_parts(size_t num_panels, size_t num_inputs) {
  constexpr size_t kWarpsWanted = kMultiprocessors * 48;
  const size_t num_chunks = num_chunks_of(num_inputs);
  uint32_t num_parts = 1;
  while (num_parts < kPartsMax && num_panels * num_parts < kWarpsWanted) {
    const size_t num_chunks_min = num_parts < 8 ? 1 : 4;
    if (num_parts * 2 * num_chunks_min > num_chunks) break;
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
  const uint32_t num_warps = num_warps_of(task);
  launch(
      stream,
      {.grid = {1, num_panel_blocks(task, kResidentWarps)},
       .block = {num_warps * kWarpThreads},
       .num_shared_bytes =
           stage_bytes(num_warps) + sum_bytes<1>(num_warps) + NormedTokens::num_bytes(norm)},
      normed_kernel,
      task,
      norm
  );
}

}  // namespace millrace::cuda
