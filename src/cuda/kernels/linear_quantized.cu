#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/linear_quantized.h"
#include "cuda/kernels/operand_tiles.h"
#include "kernels/quantized/linear_quantized_kernel.h"

namespace millrace::cuda {
namespace {

constexpr uint32_t kStepInputs = 32;  // of two products
constexpr uint32_t kTileElements = kTileRows * kTileTokens;
constexpr uint32_t kWarpsMax = 8;
constexpr uint32_t kThreadsMax = kWarpsMax * kWarpThreads;
constexpr uint32_t kTokenTilesMax = 4;  // that share what is loaded of the weights
constexpr uint32_t kGroup = 64;
static_assert(kGroup == QuantizedMatrix::kGroup && kTileRows == QuantizedMatrix::kPanelRows);
constexpr uint32_t kGroupSteps = kGroup / kStepInputs;

// Of a panel; also how many bytes of it a group has.
constexpr size_t kGroupScaleBytes = 64;  // before every four groups
constexpr size_t kScaledGroupsAtOnce = kGroupScaleBytes / kTileRows;

struct QuantizedLinearTask {
  LinearQuantizedArgs args;
  size_t num_groups;
  size_t panel_bytes;
  size_t row_scales;          // offset within a panel
  BFloat16Bits codebook[16];  // of int4
};

// Where a group's codes and scales begin within a panel.
__device__ size_t codes_offset(size_t group_bytes, size_t group) {
  return group * group_bytes + (group / kScaledGroupsAtOnce + 1) * kGroupScaleBytes;
}
__device__ size_t scales_offset(size_t group_bytes, size_t group) {
  const size_t first = group / kScaledGroupsAtOnce * kScaledGroupsAtOnce;
  return first * (group_bytes + kTileRows) + group % kScaledGroupsAtOnce * kTileRows;
}

// Inputs 8t .. 8t + 7 of a step, as they lie in a panel and as they are multiplied.
struct Int8Codes {
  static constexpr size_t kGroupBytes = 1024;

  uint32_t words[2];

  __device__ void load(const unsigned char* group, uint32_t step, uint32_t t, uint32_t row) {
    for (uint32_t i = 0; i < 2; ++i) {
      const size_t quad = step * 8 + t * 2 + i;
      words[i] = load_word(group + (quad * kTileRows + row) * 4);
    }
  }
  // A byte of 128 h + l is l - 128 (1 - h), exactly: 128 + l is a bfloat16 of l's bits and others
  // that are always the same, and from it 256 or 128 is taken.
  __device__ Words4 decode(const BFloat16Bits* /*codebook*/) const {
    constexpr uint32_t k128 = 0x43004300;
    constexpr uint32_t kMinus128 = 0xC300C300;
    Words4 result;
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
  static constexpr size_t kGroupBytes = 512;

  uint32_t word;

  __device__ void load(const unsigned char* group, uint32_t step, uint32_t t, uint32_t row) {
    const size_t octet = step * 4 + t;
    word = load_word(group + (octet * kTileRows + row) * 4);
  }
  __device__ Words4 decode(const BFloat16Bits* codebook) const {
    Words4 result;
    for (uint32_t i = 0; i < 4; ++i) {
      // Inputs 0 .. 3 in the lower halves of the bytes, 4 .. 7 in the upper ones.
      const uint32_t halves = word >> (16 * (i % 2) + 4 * (i / 2));
      result.words[i] = static_cast<uint32_t>(codebook[halves & 15U]) |
                        static_cast<uint32_t>(codebook[halves >> 8 & 15U]) << 16;
    }
    return result;
  }
};

// A lane's part of a group: rows g and g + 8 of each tile.
template <class Codes, uint32_t kRowTiles>
struct GroupWeights {
  Codes codes[kRowTiles][kGroupSteps][2];
  float scales[kRowTiles][2];

  // Nothing beyond the last group.
  __device__ void load(const QuantizedLinearTask& task, size_t first_panel, size_t group) {
    if (group >= task.num_groups) return;
    const uint32_t row = lane_index() / 4;
    for (uint32_t tile = 0; tile < kRowTiles; ++tile) {
      const unsigned char* const panel = static_cast<const unsigned char*>(task.args.panels) +
                                         (first_panel + tile) * task.panel_bytes;
      const unsigned char* const begin = panel + codes_offset(Codes::kGroupBytes, group);
      const unsigned char* const of_rows = panel + scales_offset(Codes::kGroupBytes, group);
      for (uint32_t half = 0; half < 2; ++half) {
        for (uint32_t step = 0; step < kGroupSteps; ++step) {
          codes[tile][step][half].load(begin, step, lane_index() % 4, row + half * 8);
        }
        scales[tile][half] = static_cast<float>(of_rows[row + half * 8]);
      }
    }
  }
};

template <class Codes, uint32_t kRowTiles, uint32_t kTokenTiles>
__device__ void add_group(
    const GroupWeights<Codes, kRowTiles>& weights,
    const BFloat16Bits* const (&tokens)[kTokenTiles],
    size_t group,
    const BFloat16Bits* codebook,
    float (&sums)[kRowTiles][kTokenTiles][4]
) {
  float products[kRowTiles][kTokenTiles][4] = {};
  for (uint32_t step = 0; step < kGroupSteps; ++step) {
    const size_t k = group * kGroup + step * kStepInputs + lane_index() % 4 * kWordElements;
    Words4 x[kTokenTiles];
    for (uint32_t tile = 0; tile < kTokenTiles; ++tile) x[tile] = load_words(tokens[tile] + k);
    for (uint32_t row_tile = 0; row_tile < kRowTiles; ++row_tile) {
      const Words4 upper = weights.codes[row_tile][step][0].decode(codebook);
      const Words4 lower = weights.codes[row_tile][step][1].decode(codebook);
      for (uint32_t tile = 0; tile < kTokenTiles; ++tile) {
        for (uint32_t i = 0; i < 4; i += 2) {
          multiply_fragments(
              products[row_tile][tile],
              {upper.words[i], lower.words[i], upper.words[i + 1], lower.words[i + 1]},
              {x[tile].words[i], x[tile].words[i + 1]}
          );
        }
      }
    }
  }
  for (uint32_t row_tile = 0; row_tile < kRowTiles; ++row_tile) {
    for (uint32_t tile = 0; tile < kTokenTiles; ++tile) {
      for (uint32_t i = 0; i < 4; ++i) {
        float& sum = sums[row_tile][tile][i];
        sum = fused_multiply_add(products[row_tile][tile][i], weights.scales[row_tile][i / 2], sum);
      }
    }
  }
}

__device__ float with_bias(float sum, const float* bias, size_t row) {
  return bias == nullptr ? sum : sum + bias[row];
}

// kStore or kAddToOut.
__device__ void store_output(LinearEpilogue epilogue, float sum, float& out) {
  out = epilogue == LinearEpilogue::kAddToOut ? out + sum : sum;
}

// The finished sum of row `row` of a panel.
__device__ float scaled_sum(
    const QuantizedLinearTask& task, float sum, size_t panel, uint32_t row
) {
  const unsigned char* const begin =
      static_cast<const unsigned char*>(task.args.panels) + panel * task.panel_bytes;
  const float scale = float_from_bits(load_word(begin + task.row_scales + row * 4));
  return with_bias(sum * scale, task.args.bias, panel * kTileRows + row);
}

// To [row tile][token tile][token][row], so that neighbours in memory are neighbours in out.
template <uint32_t kRowTiles, uint32_t kTokenTiles>
__device__ void store_sums(const float (&sums)[kRowTiles][kTokenTiles][4], float* shared) {
  const uint32_t group = lane_index() / 4;
  const uint32_t pair = lane_index() % 4 * 2;
  for (uint32_t row_tile = 0; row_tile < kRowTiles; ++row_tile) {
    for (uint32_t token_tile = 0; token_tile < kTokenTiles; ++token_tile) {
      float* const tile = shared + (row_tile * kTokenTiles + token_tile) * kTileElements;
      for (uint32_t i = 0; i < 4; ++i) {
        tile[(pair + i % 2) * kTileRows + group + i / 2 * 8] = sums[row_tile][token_tile][i];
      }
    }
  }
}

// `stride`: elements of a warp.
__device__ float sum_of_warps(const float* shared, uint32_t stride) {
  float sum = shared[0];
  for (uint32_t warp = 1; warp < num_warps(); ++warp) sum += shared[warp * stride];
  return sum;
}

// A block makes kTileRows columns of out for kTokenTiles * kTileTokens tokens; its warps share the
// groups of inputs. Row tiles: of kSiluMul gate and up, else one. The codebook stands behind the
// sums in shared memory.
template <class Codes, uint32_t kRowTiles, uint32_t kTokenTiles>
__global__ void __launch_bounds__(kThreadsMax, 1) quantized_kernel(QuantizedLinearTask task) {
  constexpr uint32_t kElements = kTokenTiles * kTileElements;  // of a row tile
  constexpr uint32_t kStride = kRowTiles * kElements;
  const LinearQuantizedArgs& args = task.args;
  const size_t first_panel = static_cast<size_t>(blockIdx.y) * kRowTiles;
  const size_t first_token = static_cast<size_t>(blockIdx.x) * kTokenTiles * kTileTokens;
  allow_next_kernel();
  float* const shared = dynamic_shared<float>(0, num_warps() * kStride);
  auto* const codebook = dynamic_shared<BFloat16Bits>(num_warps() * kStride * sizeof(float), 16);
  if (threadIdx.x < 16) codebook[threadIdx.x] = task.codebook[threadIdx.x];
  sync_block();

  GroupWeights<Codes, kRowTiles> next;
  next.load(task, first_panel, warp_index());
  wait_for_previous_kernel();
  const BFloat16Bits* tokens[kTokenTiles];
  for (uint32_t tile = 0; tile < kTokenTiles; ++tile) {
    const size_t token = first_token + tile * kTileTokens + lane_index() / 4;
    tokens[tile] = args.x + smaller_size(token, args.num_tokens - 1) * task.num_groups * kGroup;
  }
  float sums[kRowTiles][kTokenTiles][4] = {};
  for (size_t group = warp_index(); group < task.num_groups; group += num_warps()) {
    const GroupWeights<Codes, kRowTiles> current = next;
    next.load(task, first_panel, group + num_warps());
    add_group(current, tokens, group, codebook, sums);
  }
  store_sums(sums, shared + warp_index() * kStride);
  sync_block();
  for (uint32_t i = threadIdx.x; i < kElements; i += blockDim.x) {
    const size_t token = first_token + i / kTileRows;
    const uint32_t row = i % kTileRows;
    const size_t column = static_cast<size_t>(blockIdx.y) * kTileRows + row;
    if (token >= args.num_tokens || column >= args.num_outputs) continue;
    const float sum = scaled_sum(task, sum_of_warps(shared + i, kStride), first_panel, row);
    if (kRowTiles == 2) {
      const float up_sum = sum_of_warps(shared + kElements + i, kStride);
      const float up = scaled_sum(task, up_sum, first_panel + 1, row);
      args.activation[token_element(token, column, args.num_outputs, args.num_tokens)] =
          bfloat16_from_float(silu(sum) * up);
    } else {
      store_output(args.epilogue, sum, args.out[token * args.num_outputs + column]);
    }
  }
}

// The warps that share the inputs of a row: 1, 2, 4 or 8.
uint32_t num_k_warps(size_t num_rows, size_t num_inputs) {
  constexpr size_t kWarpsWanted = size_t{132} * 16;
  const size_t num_steps = div_ceil(num_inputs, size_t{kStepInputs});
  uint32_t num_warps = 1;
  while (num_warps < kWarpsMax && num_warps * 2 <= num_steps &&
         (num_warps < 4 || div_ceil(num_rows, size_t{kTileRows}) * num_warps < kWarpsWanted)) {
    num_warps *= 2;
  }
  return num_warps;
}

template <class Codes, uint32_t kRowTiles, uint32_t kTokenTiles>
void launch_quantized(StreamHandle stream, const QuantizedLinearTask& task) {
  const size_t num_tiles = div_ceil(task.args.num_outputs, size_t{kTileRows});
  const uint32_t num_k = num_k_warps(num_tiles * kTileRows * kRowTiles, task.args.num_inputs);
  const size_t num_sums = size_t{num_k} * kRowTiles * kTokenTiles * kTileElements;
  const size_t tokens_of_block = size_t{kTokenTiles} * kTileTokens;
  launch(
      stream,
      {.grid =
           {grid_width(div_ceil(task.args.num_tokens, tokens_of_block)), grid_height(num_tiles)},
       .block = {num_k * kWarpThreads},
       .num_shared_bytes = num_sums * sizeof(float) + sizeof task.codebook},
      quantized_kernel<Codes, kRowTiles, kTokenTiles>,
      task
  );
}

template <class Codes, uint32_t kRowTiles>
void launch_quantized(StreamHandle stream, const QuantizedLinearTask& task) {
  const size_t num_tokens = task.args.num_tokens;
  if (num_tokens <= kTileTokens) return launch_quantized<Codes, kRowTiles, 1>(stream, task);
  if (num_tokens <= 2 * kTileTokens) return launch_quantized<Codes, kRowTiles, 2>(stream, task);
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
  const size_t num_groups = num_rotated_inputs(args.num_inputs) / kGroup;
  const size_t row_scales = layout.row_scales_offset(num_groups);
  QuantizedLinearTask task = {
      .args = args,
      .num_groups = num_groups,
      .panel_bytes = row_scales + kTileRows * sizeof(float),
      .row_scales = row_scales,
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
