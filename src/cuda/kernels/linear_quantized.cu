#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/code_stream.cuh"
#include "cuda/kernels/code_tiles.h"
#include "cuda/kernels/code_weights.cuh"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/linear_quantized.h"
#include "cuda/kernels/linear_task.cuh"
#include "cuda/kernels/linear_tokens.cuh"
#include "cuda/kernels/linear_wide.h"
#include "cuda/kernels/pack_codes.h"
#include "cuda/kernels/part_sums.cuh"
#include "cuda/kernels/product_blocks.h"
#include "kernels/quantized/linear_quantized_kernel.h"

namespace millrace::cuda {
namespace {

static_assert(kChunkInputs == QuantizedMatrix::kGroup);

// Pairs of chunks that a warp has in shared memory.
template <class Codes>
constexpr uint32_t kNumStages = Codes::kBits == 8 ? 4 : 5;
template <class Codes>
using Stream = CodeStream<Codes, kNumStages<Codes>>;

// Both chunks at once, since a warp alone would wait for each operation of one. The second of the
// last pair may be padding, which does not count.
template <class Codes, uint32_t kTokenTiles>
__device__ void add_pair(
    const Codes& codes,
    const CodePair<Codes>& pair,
    bool has_second,
    TokenWords (&x)[kPairChunks][kTokenTiles],
    float (&sums)[kTokenTiles][4]
) {
  float products[kPairChunks][kTokenTiles][4] = {};
#pragma unroll
  for (uint32_t step = 0; step < kChunkSteps; ++step) {
#pragma unroll
    for (uint32_t chunk = 0; chunk < kPairChunks; ++chunk) {
      const Words4 weights = codes.weights(pair.pieces[chunk], step);
#pragma unroll
      for (uint32_t tile = 0; tile < kTokenTiles; ++tile) {
        TokenWords& of_tile = x[chunk][tile];
        const uint32_t words[2] = {of_tile.of_core(2 * step), of_tile.of_core(2 * step + 1)};
        multiply_fragments(products[chunk][tile], weights.words, words);
      }
    }
  }
#pragma unroll
  for (uint32_t chunk = 0; chunk < kPairChunks; ++chunk) {
    if (chunk == 1 && !has_second) break;
    const float scales[2] = {pair.scale(chunk, 0), pair.scale(chunk, 1)};
#pragma unroll
    for (uint32_t i = 0; i < kTokenTiles * 4; ++i) {
      float& sum = sums[i / 4][i % 4];
      sum = fused_multiply_add(products[chunk][i / 4][i % 4], scales[i % 4 / 2], sum);
    }
  }
}

// The part's sum of a panel's products.
template <uint32_t kTokenTiles, class Codes, class Tokens>
__device__ void add_part(
    const Codes& codes, Stream<Codes>& stream, const Tokens& tokens, float (&sums)[kTokenTiles][4]
) {
  constexpr uint32_t kAhead = kPairChunks;
  const uint32_t end = stream.end();
  TokenWords x[kAhead][kTokenTiles];
#pragma unroll
  for (uint32_t i = 0; i < kAhead; ++i) {
    if (stream.begin() + i < end) tokens.load(stream.begin() + i, x[i]);
  }
#pragma unroll 1
  for (uint32_t first = stream.begin(); first < end; first += kAhead) {
    add_pair(codes, stream.take(), first + 1 < end, x, sums);
#pragma unroll
    for (uint32_t i = 0; i < kAhead; ++i) {
      if (first + kAhead + i < end) tokens.load(first + kAhead + i, x[i]);
    }
  }
}

// All panels of a warp, and what follows their sums.
template <uint32_t kTokenTiles, class Codes, class Tokens>
__device__ void multiply_panels(
    const QuantizedTask& task,
    const WarpPlace& place,
    uint32_t first_tile,
    const Codes& codes,
    Stream<Codes>& stream,
    const Tokens& tokens
) {
  const LinearTask& product = task.product;
  const size_t sums_begin =
      Codes::kTableBytes + size_t{num_warps()} * kNumStages<Codes> * Stream<Codes>::kStageBytes;
  // The block's warps go on together, as far as the first of them does.
#pragma unroll 1
  for (uint32_t first = blockIdx.y; first < product.num_panels; first += place.panel_stride) {
    const uint32_t panel = first - blockIdx.y + place.first_panel;
    const bool has_panel = panel < product.num_panels;
    const bool is_finisher = place.part == 0 && has_panel;
    const PanelOutputs<kTokenTiles> outputs(product, panel, first_tile);
    float sums[kTokenTiles][4] = {};
    float before[kTokenTiles][4] = {};
    float bias[2] = {};
    float row_scales[2] = {};
    if (is_finisher) {
      if (product.args.epilogue == LinearEpilogue::kAddToOut) outputs.load_before(before);
      outputs.load_bias(bias);
      for (uint32_t i = 0; i < 2; ++i) {
        row_scales[i] = task.row_scale(panel, lane_index() / 4 + i * 8);
      }
    }
    if (has_panel) add_part<kTokenTiles>(codes, stream, tokens, sums);
    if (product.num_parts() > 1) {
      add_parts(product.num_parts(), place.part, sums_begin, sums);
      if (first + place.panel_stride < product.num_panels) sync_block();  // before the next sums
    }
    if (!is_finisher) continue;
#pragma unroll
    for (uint32_t i = 0; i < kTokenTiles * 4; ++i) sums[i / 4][i % 4] *= row_scales[i % 4 / 2];
    outputs.finish(bias, before, sums);
  }
}

// Grid: product_shape(). Shared memory: the codes' table, stages, the warps' sums.
template <class Codes, uint32_t kTokenTiles, bool kIsFew>
__global__ void __launch_bounds__(kCodeWarpsMax* kWarpThreads, kTokenTiles == 1 ? 2 : 1)
    quantized_kernel(QuantizedTask task) {
  allow_next_kernel();
  const WarpPlace place(task.product.num_parts_log2);
  Stream<Codes> stream(task, place, Codes::kTableBytes);
  const Codes codes(0);
  codes.create(task);
  const uint32_t first_tile = kIsFew ? 0 : blockIdx.x * kTokenTiles;
  if (place.part == 0) PanelOutputs<1>(task.product, place.first_panel, first_tile).prefetch_bias();
  const StoredTokens<kTokenTiles, kIsFew, true> tokens(task.product, first_tile);
  sync_block();
  wait_for_previous_kernel();
  multiply_panels<kTokenTiles>(task, place, first_tile, codes, stream, tokens);
}

// A task, and the warps of the blocks that do it.
struct QuantizedLaunch {
  QuantizedTask task;
  uint32_t num_warps;
};

template <class Codes, uint32_t kTokenTiles, bool kIsFew>
void launch_for_tokens(StreamHandle stream, const QuantizedLaunch& of_all) {
  const LinearTask& product = of_all.task.product;
  const LaunchShape shape = product_shape(
      {.num_tokens = product.args.num_tokens,
       .num_token_tiles = kTokenTiles,
       .num_panels = product.num_panels,
       .num_warps = of_all.num_warps,
       .num_warp_bytes = size_t{kNumStages<Codes>} * Stream<Codes>::kStageBytes,
       .num_other_bytes = Codes::kTableBytes,
       .epilogue = product.args.epilogue}
  );
  launch(stream, shape, quantized_kernel<Codes, kTokenTiles, kIsFew>, of_all.task);
}

template <class Codes>
void launch_quantized(StreamHandle stream, const QuantizedLaunch& of_all) {
  const QuantizedTask& task = of_all.task;
  if (is_for_linear_wide_quantized(task)) return linear_wide_quantized<Codes>(stream, task);
  const uint32_t num_tokens = task.product.num_tokens;
  if (num_tokens > kFewTokens) {
    return launch_for_tokens<Codes, kTokenTilesMax, false>(stream, of_all);
  }
  if (num_tokens > 2 * kTileTokens) {
    return launch_for_tokens<Codes, kTokenTilesMax, true>(stream, of_all);
  }
  num_tokens > kTileTokens ? launch_for_tokens<Codes, 2, true>(stream, of_all)
                           : launch_for_tokens<Codes, 1, true>(stream, of_all);
}

uint32_t num_bits(QuantizedFormat format) {
  CHECK(!are_codes(format), "weights that were rounded here");
  return num_device_bits(format);
}

QuantizedLaunch checked_launch(QuantizedFormat format, const LinearArgs& args) {
  CHECK(args.num_rows > 0 && args.num_inputs > 0, "a matrix has rows and columns");
  const CodePanelLayout layout(num_bits(format), args.num_inputs);
  const size_t num_panels = num_code_panels(args.num_rows, args.epilogue);
  const PanelShare share = code_share(num_panels, layout.num_pairs, args.epilogue);
  QuantizedTask task = {
      .product = checked_linear_task(args, num_panels, share.num_parts),
      .num_pairs = layout.num_pairs,
      .panel_bytes = layout.num_bytes(),
      .scales_begin = layout.scales_begin(),
      .row_scales_begin = layout.row_scales_begin(),
      .codebook = {}};
  for (size_t i = 0; i < 16; ++i) {
    task.codebook[i] = to_bfloat16(static_cast<float>(kInt4Codes[i] - kInt4Zero)).bits;
  }
  return {task, share.num_warps};
}

}  // namespace

size_t num_code_panels(size_t num_rows, LinearEpilogue epilogue) {
  return epilogue == LinearEpilogue::kSiluMul ? 2 * num_panels_of(num_rows / 2)
                                              : num_panels_of(num_rows);
}

size_t num_code_bytes(QuantizedFormat format, size_t num_panels, size_t num_inputs) {
  return num_panels * CodePanelLayout(num_bits(format), num_inputs).num_bytes();
}

void linear_quantized(StreamHandle stream, QuantizedFormat format, const LinearArgs& args) {
  if (args.num_tokens == 0) return;
  const QuantizedLaunch of_all = checked_launch(format, args);
  num_bits(format) == Int8Codes::kBits ? launch_quantized<Int8Codes>(stream, of_all)
                                       : launch_quantized<Int4Codes>(stream, of_all);
}

}  // namespace millrace::cuda
