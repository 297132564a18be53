#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/linear.h"
#include "cuda/kernels/linear_tile.cuh"

namespace millrace::cuda {
namespace {

struct LinearTask {
  LinearArgs args;
  size_t num_outputs;  // columns of out
};

// Both halves of a tile of weights: row g and row g + 8 of each of kRowTiles tiles.
template <uint32_t kRowTiles>
struct StepWeights {
  Words4 rows[kRowTiles][2];
};

// One warp's share of a block's product. A lane is lane 4 g + t.
// kIsWhole: rows of a multiple of eight inputs, so that they all begin at multiples of 16 bytes.
template <uint32_t kRowTiles, uint32_t kTokenTiles, bool kIsWhole>
class WarpProduct {
 public:
  // Steps whose weights are loaded ahead: 64 registers of them, together with those in use.
  static constexpr uint32_t kStepsAhead = kIsWhole ? 4 / kRowTiles : 1;
  // One pass over the weights is sure to be all.
  static constexpr bool kIsStreamed = kIsWhole && kTokenTiles < kTokenTilesMax;

  __device__ WarpProduct(const LinearTask& task, size_t first_row, size_t first_token)
      : args_(task.args) {
    const uint32_t group = lane_index() / 4;
    for (uint32_t tile = 0; tile < kRowTiles; ++tile) {
      for (uint32_t half = 0; half < 2; ++half) {
        // Beyond the last row, and below beyond the last token: the last one again, not stored.
        const size_t row = smaller_size(first_row + half * 8 + group, task.num_outputs - 1);
        rows_[tile][half] = args_.weights + (tile * task.num_outputs + row) * args_.num_inputs;
      }
    }
    for (uint32_t tile = 0; tile < kTokenTiles; ++tile) {
      const size_t token =
          smaller_size(first_token + tile * kTileTokens + group, args_.num_tokens - 1);
      tokens_[tile] = args_.x + token * args_.num_inputs;
    }
  }

  // Begins with the weights, which no kernel writes, and waits for x only then.
  __device__ void run(float (&sums)[kRowTiles][kTokenTiles][4]) const {
    const size_t num_steps = (args_.num_inputs + kStepInputs - 1) / kStepInputs;
    const size_t stride = num_warps();
    StepWeights<kRowTiles> next[kStepsAhead];
    load_weights(warp_index(), next);
    wait_for_previous_kernel();
    for (size_t step = warp_index(); step < num_steps; step += stride * kStepsAhead) {
      StepWeights<kRowTiles> current[kStepsAhead];
      for (uint32_t i = 0; i < kStepsAhead; ++i) current[i] = next[i];
      load_weights(step + stride * kStepsAhead, next);
      for (uint32_t i = 0; i < kStepsAhead; ++i) add_step(step + i * stride, current[i], sums);
    }
  }

 private:
  __device__ size_t first_input(size_t step) const {
    return step * kStepInputs + lane_index() % 4 * kWordElements;
  }

  // Zero beyond the last input.
  __device__ void load_weights(size_t step, StepWeights<kRowTiles> (&weights)[kStepsAhead]) const {
    for (uint32_t i = 0; i < kStepsAhead; ++i) {
      const size_t k = first_input(step + i * num_warps());
      for (uint32_t tile = 0; tile < kRowTiles; ++tile) {
        for (uint32_t half = 0; half < 2; ++half) {
          const BFloat16Bits* const row = rows_[tile][half];
          weights[i].rows[tile][half] = load_weight(row, k);
        }
      }
    }
  }

  __device__ Words4 load_weight(const BFloat16Bits* row, size_t k) const {
    if (kIsStreamed) return k < args_.num_inputs ? load_streaming(row + k) : Words4{};
    return load_elements(row, k, args_.num_inputs, kIsWhole);
  }

  // A step beyond the last adds zeros: the same number of products for every warp of a block.
  __device__ void add_step(
      size_t step, const StepWeights<kRowTiles>& weights, float (&sums)[kRowTiles][kTokenTiles][4]
  ) const {
    const size_t k = first_input(step);
    for (uint32_t token_tile = 0; token_tile < kTokenTiles; ++token_tile) {
      const Words4 x = load_elements(tokens_[token_tile], k, args_.num_inputs, kIsWhole);
      for (uint32_t row_tile = 0; row_tile < kRowTiles; ++row_tile) {
        const uint32_t(&upper)[4] = weights.rows[row_tile][0].words;
        const uint32_t(&lower)[4] = weights.rows[row_tile][1].words;
        for (uint32_t half = 0; half < 2; ++half) {
          const uint32_t i = 2 * half;
          multiply_fragments(
              sums[row_tile][token_tile],
              {upper[i], lower[i], upper[i + 1], lower[i + 1]},
              {x.words[i], x.words[i + 1]}
          );
        }
      }
    }
  }

  const LinearArgs& args_;
  const BFloat16Bits* rows_[kRowTiles][2];
  const BFloat16Bits* tokens_[kTokenTiles];
};

// Row tiles: of kSiluMul gate and up, else one. A block makes kTileRows columns of out for
// kTokenTiles * kTileTokens tokens.
template <uint32_t kRowTiles, uint32_t kTokenTiles, bool kIsWhole>
__global__ void __launch_bounds__(kThreadsMax, 1) linear_kernel(LinearTask task) {
  const LinearArgs& args = task.args;
  const size_t first_row = static_cast<size_t>(blockIdx.y) * kTileRows;
  const size_t first_token = static_cast<size_t>(blockIdx.x) * kTokenTiles * kTileTokens;
  allow_next_kernel();
  float sums[kRowTiles][kTokenTiles][4] = {};
  WarpProduct<kRowTiles, kTokenTiles, kIsWhole>(task, first_row, first_token).run(sums);

  constexpr uint32_t kElements = kTokenTiles * kTileElements;  // of a row tile
  constexpr uint32_t kStride = kRowTiles * kElements;
  float* const shared = dynamic_shared<float>(0, num_warps() * kStride);
  store_sums(sums, shared + warp_index() * kStride);
  sync_block();
  for (uint32_t i = threadIdx.x; i < kElements; i += blockDim.x) {
    const size_t token = first_token + i / kTileRows;
    const size_t row = first_row + i % kTileRows;
    if (token >= args.num_tokens || row >= task.num_outputs) continue;
    const size_t index = token * task.num_outputs + row;
    const float sum = with_bias(sum_of_warps(shared + i, kStride), args.bias, row);
    if (kRowTiles == 2) {
      const size_t up_row = task.num_outputs + row;
      const float up = with_bias(sum_of_warps(shared + kElements + i, kStride), args.bias, up_row);
      args.activation[index] = bfloat16_from_float(silu(sum) * up);
    } else {
      store_output(args.epilogue, sum, args.out[index]);
    }
  }
}

template <uint32_t kRowTiles, uint32_t kTokenTiles, bool kIsWhole>
void launch_linear(StreamHandle stream, const LinearTask& task) {
  const uint32_t num_k = num_k_warps(task.args.num_rows, task.args.num_inputs);
  const size_t num_token_blocks = div_ceil(task.args.num_tokens, size_t{kTokenTiles} * kTileTokens);
  launch(
      stream,
      // Blocks that share weights lie side by side.
      {.grid =
           {grid_width(num_token_blocks),
            grid_height(div_ceil(task.num_outputs, size_t{kTileRows}))},
       .block = {num_k * kWarpThreads},
       .num_shared_bytes = num_k * kRowTiles * kTokenTiles * kTileElements * sizeof(float)},
      linear_kernel<kRowTiles, kTokenTiles, kIsWhole>,
      task
  );
}

template <uint32_t kRowTiles, bool kIsWhole>
void launch_linear(StreamHandle stream, const LinearTask& task) {
  if (task.args.num_tokens <= kTileTokens)
    return launch_linear<kRowTiles, 1, kIsWhole>(stream, task);
  if (task.args.num_tokens <= 2 * kTileTokens) {
    return launch_linear<kRowTiles, 2, kIsWhole>(stream, task);
  }
  launch_linear<kRowTiles, kTokenTilesMax, kIsWhole>(stream, task);
}

}  // namespace

// As many blocks as there are tiles of rows; where these are few, more warps for each. Not
// measured: an H200 has 132 multiprocessors, and 16 warps on each hide what memory takes.
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

void linear(StreamHandle stream, const LinearArgs& args) {
  if (args.num_tokens == 0) return;
  const bool is_silu_mul = args.epilogue == LinearEpilogue::kSiluMul;
  CHECK(args.x != nullptr && args.weights != nullptr, "linear's memory");
  CHECK(args.num_rows > 0 && args.num_inputs > 0, "a matrix has rows and columns");
  CHECK(!is_silu_mul || args.num_rows % 2 == 0, "as many rows of gate as of up");
  CHECK(is_silu_mul ? args.activation != nullptr : args.out != nullptr, "linear's memory");
  CHECK(is_aligned(args.x) && is_aligned(args.weights), "16-byte memory");
  const LinearTask task = {
      .args = args, .num_outputs = is_silu_mul ? args.num_rows / 2 : args.num_rows};
  const bool is_whole = args.num_inputs % kWordElements == 0;
  if (is_silu_mul) {
    is_whole ? launch_linear<2, true>(stream, task) : launch_linear<2, false>(stream, task);
  } else {
    is_whole ? launch_linear<1, true>(stream, task) : launch_linear<1, false>(stream, task);
  }
}

}  // namespace millrace::cuda
