#include <bit>

#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/linear_quantized.h"
#include "cuda/kernels/operand_tiles.h"
#include "cuda/kernels/part_sums.cuh"
#include "cuda/kernels/product_blocks.h"
#include "cuda/kernels/weight_stream.cuh"
#include "kernels/quantized/linear_quantized_kernel.h"

namespace millrace::cuda {
namespace {

constexpr uint32_t kStepInputs = 32;    // of two products
constexpr uint32_t kTokenTilesMax = 4;  // that share what is loaded of the weights
constexpr uint32_t kGroup = 64;
static_assert(kGroup == QuantizedMatrix::kGroup && kTileRows == QuantizedMatrix::kPanelRows);
constexpr uint32_t kGroupSteps = kGroup / kStepInputs;

// Of a panel; also how many bytes of it a group has.
constexpr uint32_t kGroupScaleBytes = 64;  // before every four groups
constexpr uint32_t kScaledGroupsAtOnce = kGroupScaleBytes / kTileRows;

struct QuantizedLinearTask {
  LinearQuantizedArgs args;
  uint32_t num_tokens;
  uint32_t num_outputs;
  uint32_t num_panels;  // of the result: of kSiluMul a panel of gate and one of up each
  uint32_t num_groups;
  uint32_t num_parts_log2;
  uint32_t panel_bytes;
  uint32_t row_scales;        // offset within a panel
  BFloat16Bits codebook[16];  // of int4

  __host__ __device__ uint32_t num_parts() const { return 1U << num_parts_log2; }
  // The first group of a part, and of what follows the last.
  __device__ uint32_t part_begin(uint32_t part) const {
    return part * num_groups >> num_parts_log2;
  }
};

// Inputs 8t .. 8t + 7 of a step, as they lie in a panel and as they are multiplied.
struct Int8Codes {
  static constexpr uint32_t kGroupBytes = 1024;

  uint32_t words[2];

  __device__ void load(const unsigned char* group, uint32_t step, uint32_t t, uint32_t row) {
#pragma unroll
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t quad = step * 8 + t * 2 + i;
      words[i] = load_word(group + (quad * kTileRows + row) * 4);
    }
  }
  // A byte of 128 h + l is l - 128 (1 - h), exactly: 128 + l is a bfloat16 of l's bits and others
  // that are always the same, and from it 256 or 128 is taken.
  __device__ Words4 decode(const BFloat16Bits* /*codebook*/) const {
    constexpr uint32_t k128 = 0x43004300;
    constexpr uint32_t kMinus128 = 0xC300C300;
    Words4 result;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t pair = bytes_as_halves(words[i / 2], i % 2);
      const uint32_t lower = (pair & 0x007F007F) | k128;
      const uint32_t taken = (~pair & 0x00800080) | kMinus128;
      result.words[i] = add_bfloat16_pairs(lower, taken);
    }
    return result;
  }
};

struct Int4Codes {
  static constexpr uint32_t kGroupBytes = 512;

  uint32_t word;

  __device__ void load(const unsigned char* group, uint32_t step, uint32_t t, uint32_t row) {
    const uint32_t octet = step * 4 + t;
    word = load_word(group + (octet * kTileRows + row) * 4);
  }
  __device__ Words4 decode(const BFloat16Bits* codebook) const {
    Words4 result;
#pragma unroll
    for (uint32_t i = 0; i < 4; ++i) {
      // Inputs 0 .. 3 in the lower halves of the bytes, 4 .. 7 in the upper ones.
      const uint32_t halves = word >> (16 * (i % 2) + 4 * (i / 2));
      result.words[i] = static_cast<uint32_t>(codebook[halves & 15U]) |
                        static_cast<uint32_t>(codebook[halves >> 8 & 15U]) << 16;
    }
    return result;
  }
};

// The groups of a warp's part of its panels on their way through shared memory, kRowTiles panels at
// once: codes of each, then scales of each.
template <class Codes, uint32_t kRowTiles>
class GroupStream {
 public:
  static constexpr uint32_t kScalesBegin = kRowTiles * Codes::kGroupBytes;
  static constexpr uint32_t kStageBytes = kScalesBegin + kRowTiles * kTileRows;
  // About as many bytes as linear() has under way.
  static constexpr uint32_t kNumStages = 10400 / kStageBytes < 16 ? 10400 / kStageBytes : 16;

  // Asks for the first groups, which no kernel writes, so before any is waited for.
  __device__ GroupStream(const QuantizedLinearTask& task, const WarpPlace& place)
      : task_(task),
        place_(place),
        begin_(task.part_begin(place.part)),
        end_(task.part_begin(place.part + 1)),
        panel_(place.first_panel),
        group_(begin_),
        stages_(
            dynamic_shared<unsigned char>(0, num_warps() * kNumStages * kStageBytes) +
            warp_index() * (kNumStages * kStageBytes)
        ) {
#pragma unroll 1
    for (uint32_t i = 0; i + 1 < kNumStages; ++i) ask();
  }

  __device__ uint32_t begin() const {
    return begin_;
  }
  __device__ uint32_t end() const {
    return end_;
  }

  // The next group, until the next call; and asks for one more. By the whole warp.
  __device__ const unsigned char* take() {
    wait_for_copies<kNumStages - 2>();
    sync_warp();  // others' copies have come as well, and the stage before was read
    const unsigned char* const stage = stages_ + taken_;
    taken_ = next_stage(taken_);
    ask();
    return stage;
  }

 private:
  // For the group after the last one asked for; nothing beyond the last panel.
  __device__ void ask() {
    if (panel_ < task_.num_panels) {
      unsigned char* const to = stages_ + asked_;
      const uint32_t fours = group_ / kScaledGroupsAtOnce;
      const uint32_t of_four = group_ % kScaledGroupsAtOnce;
      const uint32_t codes =
          group_ * Codes::kGroupBytes + (fours + 1) * kGroupScaleBytes + lane_index() * 16;
      const uint32_t scales =
          fours * (kScaledGroupsAtOnce * Codes::kGroupBytes + kGroupScaleBytes) +
          of_four * kTileRows;
#pragma unroll
      for (uint32_t tile = 0; tile < kRowTiles; ++tile) {
        const unsigned char* const panel = static_cast<const unsigned char*>(task_.args.panels) +
                                           size_t{panel_ * kRowTiles + tile} * task_.panel_bytes;
#pragma unroll
        for (uint32_t i = 0; i < Codes::kGroupBytes; i += kWarpThreads * 16) {
          copy_streaming(to + tile * Codes::kGroupBytes + i + lane_index() * 16, panel + codes + i);
        }
        if (lane_index() == tile) {
          copy_streaming(to + kScalesBegin + tile * kTileRows, panel + scales);
        }
      }
      if (++group_ == end_) {
        panel_ += place_.panel_stride;
        group_ = begin_;
      }
    }
    asked_ = next_stage(asked_);
    end_copies();
  }

  __device__ static uint32_t next_stage(uint32_t stage) {
    return stage == (kNumStages - 1) * kStageBytes ? 0 : stage + kStageBytes;
  }

  const QuantizedLinearTask& task_;
  const WarpPlace& place_;
  uint32_t begin_;
  uint32_t end_;
  uint32_t panel_;  // of the next group to ask for
  uint32_t group_;
  unsigned char* stages_;
  uint32_t asked_ = 0;  // the stage of the next
  uint32_t taken_ = 0;
};

// Inputs 8t .. 8t + 7 of each step of a group, of a lane's token of each tile.
template <uint32_t kTokenTiles>
struct GroupTokens {
  Words4 words[kTokenTiles][kGroupSteps];

  __device__ void load(const QuantizedLinearTask& task, uint32_t first_tile, uint32_t group) {
    const uint32_t first = group * kGroup + lane_index() % 4 * kWordElements;
#pragma unroll
    for (uint32_t tile = 0; tile < kTokenTiles; ++tile) {
      const uint32_t token = (first_tile + tile) * kTileTokens + lane_index() / 4;
      if (token >= task.num_tokens) continue;
      const BFloat16Bits* const row = task.args.x + size_t{token} * task.num_groups * kGroup;
#pragma unroll
      for (uint32_t step = 0; step < kGroupSteps; ++step) {
        words[tile][step] = load_words(row + first + step * kStepInputs);
      }
    }
  }
};

// sums: [row tile * kTokenTiles + token tile].
template <class Codes, uint32_t kRowTiles, uint32_t kTokenTiles>
__device__ void add_group(
    const unsigned char* stage,
    const GroupTokens<kTokenTiles>& tokens,
    const BFloat16Bits* codebook,
    float (&sums)[kRowTiles * kTokenTiles][4]
) {
  const uint32_t row = lane_index() / 4;
#pragma unroll
  for (uint32_t row_tile = 0; row_tile < kRowTiles; ++row_tile) {
    float products[kTokenTiles][4] = {};
#pragma unroll
    for (uint32_t step = 0; step < kGroupSteps; ++step) {
      Words4 halves[2];
#pragma unroll
      for (uint32_t half = 0; half < 2; ++half) {
        Codes codes;
        codes.load(stage + row_tile * Codes::kGroupBytes, step, lane_index() % 4, row + half * 8);
        halves[half] = codes.decode(codebook);
      }
#pragma unroll
      for (uint32_t i = 0; i < 4; i += 2) {
#pragma unroll
        for (uint32_t tile = 0; tile < kTokenTiles; ++tile) {
          const Words4& x = tokens.words[tile][step];
          multiply_fragments(
              products[tile],
              {halves[0].words[i],
               halves[1].words[i],
               halves[0].words[i + 1],
               halves[1].words[i + 1]},
              {x.words[i], x.words[i + 1]}
          );
        }
      }
    }
    const unsigned char* const scales =
        stage + GroupStream<Codes, kRowTiles>::kScalesBegin + row_tile * kTileRows;
#pragma unroll
    for (uint32_t i = 0; i < kTokenTiles * 4; ++i) {
      const auto scale = static_cast<float>(scales[row + i % 4 / 2 * 8]);
      float& sum = sums[row_tile * kTokenTiles + i / 4][i % 4];
      sum = fused_multiply_add(products[i / 4][i % 4], scale, sum);
    }
  }
}

// A lane's outputs of a panel: rows g and g + 8, tokens 2t and 2t + 1 of each tile.
template <uint32_t kRowTiles, uint32_t kTokenTiles>
class QuantizedOutputs {
 public:
  __device__ QuantizedOutputs(const QuantizedLinearTask& task, uint32_t panel, uint32_t first_tile)
      : task_(task), panel_(panel), first_tile_(first_tile) {}

  // What finished sums are multiplied with, and what is added then: of each row tile's two rows.
  __device__ void load_rows() {
#pragma unroll
    for (uint32_t i = 0; i < kRowTiles * 2; ++i) {
      const uint32_t panel = panel_ * kRowTiles + i / 2;
      const uint32_t row = lane_index() / 4 + i % 2 * 8;
      const unsigned char* const begin =
          static_cast<const unsigned char*>(task_.args.panels) + size_t{panel} * task_.panel_bytes;
      scales_[i] = float_from_bits(load_word(begin + task_.row_scales + row * 4));
      bias_[i] = task_.args.bias == nullptr ? 0.0F : task_.args.bias[panel * kTileRows + row];
    }
  }

  __device__ void store(const float (&sums)[kRowTiles * kTokenTiles][4]) const {
#pragma unroll
    for (uint32_t i = 0; i < kTokenTiles * 4; ++i) {
      const uint32_t token = (first_tile_ + i / 4) * kTileTokens + lane_index() % 4 * 2 + i % 2;
      const uint32_t half = i % 4 / 2;
      const uint32_t column = panel_ * kTileRows + lane_index() / 4 + half * 8;
      if (token >= task_.num_tokens || column >= task_.num_outputs) continue;
      const float sum = finished(sums[i / 4][i % 4], half);
      if constexpr (kRowTiles == 2) {
        const float up = finished(sums[kTokenTiles + i / 4][i % 4], 2 + half);
        const size_t element = token_element(token, column, task_.num_outputs, task_.num_tokens);
        task_.args.activation[element] = bfloat16_from_float(silu(sum) * up);
      } else {
        float& out = task_.args.out[token * task_.num_outputs + column];
        out = task_.args.epilogue == LinearEpilogue::kAddToOut ? out + sum : sum;
      }
    }
  }

 private:
  __device__ float finished(float sum, uint32_t row) const {
    return task_.args.bias == nullptr ? sum * scales_[row] : sum * scales_[row] + bias_[row];
  }

  const QuantizedLinearTask& task_;
  uint32_t panel_;
  uint32_t first_tile_;
  float scales_[kRowTiles * 2] = {};
  float bias_[kRowTiles * 2] = {};
};

// Grid: product_shape(). The codebook stands behind the sums in shared memory. Row tiles: of
// kSiluMul gate and up, else one.
template <class Codes, uint32_t kRowTiles, uint32_t kTokenTiles>
__global__ void __launch_bounds__(kBlockWarpsMax* kWarpThreads, kTokenTiles == 1 ? 2 : 1)
    quantized_kernel(QuantizedLinearTask task) {
  using Stream = GroupStream<Codes, kRowTiles>;
  allow_next_kernel();
  const WarpPlace place(task.num_parts_log2);
  Stream stream(task, place);
  const size_t stage_bytes = size_t{num_warps()} * Stream::kNumStages * Stream::kStageBytes;
  auto* const codebook = dynamic_shared<BFloat16Bits>(
      stage_bytes + sum_bytes<kRowTiles * kTokenTiles>(num_warps()), 16
  );
  if (threadIdx.x < 16) codebook[threadIdx.x] = task.codebook[threadIdx.x];
  sync_block();
  const uint32_t first_tile = blockIdx.x * kTokenTiles;
  wait_for_previous_kernel();
  // The block's warps go on together, as far as the first of them does.
#pragma unroll 1
  for (uint32_t first = blockIdx.y; first < task.num_panels; first += place.panel_stride) {
    const uint32_t panel = first - blockIdx.y + place.first_panel;
    const bool has_panel = panel < task.num_panels;
    QuantizedOutputs<kRowTiles, kTokenTiles> outputs(task, panel, first_tile);
    if (has_panel) outputs.load_rows();
    float sums[kRowTiles * kTokenTiles][4] = {};
    if (has_panel) {
      GroupTokens<kTokenTiles> next = {};
      next.load(task, first_tile, stream.begin());
#pragma unroll 1
      for (uint32_t group = stream.begin(); group < stream.end(); ++group) {
        const GroupTokens<kTokenTiles> tokens = next;
        if (group + 1 < stream.end()) next.load(task, first_tile, group + 1);
        add_group<Codes, kRowTiles, kTokenTiles>(stream.take(), tokens, codebook, sums);
      }
    }
    if (task.num_parts() > 1) add_parts(task.num_parts(), place.part, stage_bytes, sums);
    if (has_panel && place.part == 0) outputs.store(sums);
  }
}

template <class Codes, uint32_t kRowTiles, uint32_t kTokenTiles>
void launch_quantized(StreamHandle stream, const QuantizedLinearTask& task) {
  using Stream = GroupStream<Codes, kRowTiles>;
  const uint32_t num_warps = num_block_warps(task.num_panels, task.num_parts());
  const size_t num_bytes = size_t{num_warps} * Stream::kNumStages * Stream::kStageBytes +
                           sum_bytes<kRowTiles * kTokenTiles>(num_warps) + sizeof task.codebook;
  const LaunchShape shape = product_shape(
      {.num_token_blocks = div_ceil(task.args.num_tokens, size_t{kTokenTiles} * kTileTokens),
       .num_panels = task.num_panels,
       .num_warps = num_warps,
       .num_shared_bytes = num_bytes,
       .epilogue = task.args.epilogue}
  );
  launch(stream, shape, quantized_kernel<Codes, kRowTiles, kTokenTiles>, task);
}

template <class Codes, uint32_t kRowTiles>
void launch_quantized(StreamHandle stream, const QuantizedLinearTask& task) {
  if (task.num_tokens <= kTileTokens) return launch_quantized<Codes, kRowTiles, 1>(stream, task);
  if (task.num_tokens <= 2 * kTileTokens) {
    return launch_quantized<Codes, kRowTiles, 2>(stream, task);
  }
  launch_quantized<Codes, kRowTiles, kTokenTilesMax>(stream, task);
}

// Grid: tokens, blocks of the transform. A thread does one sum and one difference of each step.
__global__ void rotate_kernel(RotateRowsArgs args) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const uint32_t size = 2 * blockDim.x;
  float* const block = dynamic_shared<float>(0, size);
  const size_t begin = static_cast<size_t>(blockIdx.y) * size;
  for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) {
    const size_t element = token_element(blockIdx.x, begin + i, args.num_inputs, args.num_tokens);
    block[i] = begin + i < args.num_inputs ? float_from_bfloat16(args.x[element]) : 0.0F;
  }
  for (uint32_t step = size / 2; step >= 1; step /= 2) {
    sync_block();
    const uint32_t i = threadIdx.x / step * 2 * step + threadIdx.x % step;
    const float a = block[i];
    const float b = block[i + step];
    block[i] = a + b;
    block[i + step] = a - b;
  }
  sync_block();
  BFloat16Bits* const out = args.out + blockIdx.x * static_cast<size_t>(gridDim.y) * size + begin;
  for (uint32_t i = threadIdx.x; i < size; i += blockDim.x) out[i] = bfloat16_from_float(block[i]);
}

// rotation_size() of kernels/quantized/encode_rows.h, without its library: what runs on a device
// needs nothing of what runs beside it.
size_t transform_size(size_t num_inputs) {
  size_t size = 1024;
  while (num_rotated_inputs(num_inputs) % size != 0) size /= 2;
  return size;
}

}  // namespace

size_t num_rotated_inputs(size_t num_inputs) {
  return round_up(num_inputs, size_t{kGroup});
}

void rotate_rows(StreamHandle stream, const RotateRowsArgs& args) {
  if (args.num_tokens == 0) return;
  CHECK(args.x != nullptr && args.out != nullptr && args.x != args.out, "rotate_rows' memory");
  CHECK(args.num_inputs > 0, "a row has inputs");
  const size_t size = transform_size(args.num_inputs);
  launch(
      stream,
      {.grid =
           {grid_width(args.num_tokens), grid_height(num_rotated_inputs(args.num_inputs) / size)},
       .block = {static_cast<uint32_t>(size / 2)},
       .num_shared_bytes = size * sizeof(float)},
      rotate_kernel,
      args
  );
}

void linear_quantized(StreamHandle stream, const LinearQuantizedArgs& args) {
  if (args.num_tokens == 0) return;
  const bool is_silu_mul = args.epilogue == LinearEpilogue::kSiluMul;
  CHECK(args.x != nullptr && args.panels != nullptr, "linear_quantized's memory");
  CHECK(args.num_outputs > 0 && args.num_inputs > 0, "a matrix has rows and columns");
  CHECK(is_silu_mul ? args.activation != nullptr : args.out != nullptr, "memory for the result");
  CHECK(is_aligned(args.x) && is_aligned(args.panels), "16-byte memory");
  const bool is_int8 = args.format == QuantizedFormat::kInt8;
  CHECK(is_int8 || args.format == QuantizedFormat::kInt4, "weights that were rounded here");
  const PanelLayout& layout = is_int8 ? Int8Weights::kLayout : Int4Weights::kLayout;
  CHECK(args.num_tokens * args.num_outputs <= UINT32_MAX, "a result of at most 2^32 - 1 elements");
  const size_t num_groups = num_rotated_inputs(args.num_inputs) / kGroup;
  const size_t row_scales = layout.row_scales_offset(num_groups);
  const size_t num_panels = div_ceil(args.num_outputs, size_t{kTileRows});
  const uint32_t num_parts = num_k_parts(num_panels, args.num_inputs);
  QuantizedLinearTask task = {
      .args = args,
      .num_tokens = static_cast<uint32_t>(args.num_tokens),
      .num_outputs = static_cast<uint32_t>(args.num_outputs),
      .num_panels = static_cast<uint32_t>(num_panels),
      .num_groups = static_cast<uint32_t>(num_groups),
      .num_parts_log2 = static_cast<uint32_t>(std::countr_zero(num_parts)),
      .panel_bytes = static_cast<uint32_t>(row_scales + kTileRows * sizeof(float)),
      .row_scales = static_cast<uint32_t>(row_scales),
      .codebook = {}};
  for (size_t i = 0; i < 16; ++i) {
    task.codebook[i] = to_bfloat16(static_cast<float>(kInt4Codes[i]) - 128.0F).bits;
  }
  if (is_silu_mul) {
    is_int8 ? launch_quantized<Int8Codes, 2>(stream, task)
            : launch_quantized<Int4Codes, 2>(stream, task);
  } else {
    is_int8 ? launch_quantized<Int8Codes, 1>(stream, task)
            : launch_quantized<Int4Codes, 1>(stream, task);
  }
}

}  // namespace millrace::cuda
