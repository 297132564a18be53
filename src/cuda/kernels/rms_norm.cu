#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/operand_tiles.h"
#include "cuda/kernels/rms_norm.cuh"
#include "cuda/kernels/rms_norm.h"
#include "cuda/kernels/token_columns.cuh"

namespace millrace::cuda {
namespace {

constexpr uint32_t kThreads = kNormThreads;
constexpr uint32_t kWarps = kNormWarps;
constexpr uint32_t kColumns = kNormColumns;
constexpr uint32_t kPassColumns = kNormPassColumns;
constexpr uint32_t kPassesMax = 8;

// Grid: tokens. For few: all that a thread needs is in its registers, the weights before the kernel
// before has ended.
template <uint32_t kPasses, bool kIsWhole>
__global__ void __launch_bounds__(kThreads) token_kernel(RmsNormArgs args) {
  float values[kPasses][kColumns] = {};
  float weights[kPasses][kColumns] = {};
  const auto column_of = [](uint32_t pass) { return pass * kPassColumns + threadIdx.x * kColumns; };
#pragma unroll
  for (uint32_t pass = 0; pass < kPasses; ++pass) {
    load_columns<kIsWhole>(args.weight, column_of(pass), args.hidden, weights[pass]);
  }
  wait_for_previous_kernel();
  allow_next_kernel();
  const float* const x = args.x + blockIdx.x * args.hidden;
  float sum = 0.0F;
#pragma unroll
  for (uint32_t pass = 0; pass < kPasses; ++pass) {
    load_columns<kIsWhole>(x, column_of(pass), args.hidden, values[pass]);
  }
#pragma unroll
  for (uint32_t pass = 0; pass < kPasses; ++pass) sum = add_squares(values[pass], sum);
  const float factor =
      inverse_rms(sum_over_block(sum, dynamic_shared<float>(0, kWarps)), args.hidden, args.eps);
#pragma unroll
  for (uint32_t pass = 0; pass < kPasses; ++pass) {
    const size_t column = column_of(pass);
    if (column >= args.hidden) continue;
    const Words4 columns = normed_columns(values[pass], weights[pass], factor);
    store_token_columns(args.out, blockIdx.x, column, args.hidden, args.num_tokens, columns);
  }
}

// Grid: tiles of tokens. For many: a warp takes a token, and a tile's cores are written whole:
// 1024 tokens of 3584 took 37 us in halves of sectors, and take 19. In token_kernel()'s order of
// sums.
template <bool kIsWhole>
__global__ void __launch_bounds__(kThreads) tile_kernel(RmsNormArgs args) {
  static_assert(kWarps == kTileTokens);
  constexpr uint32_t kWindow = kNormWarpColumns;
  constexpr uint32_t kPlaceWords = kTileTokens * kWarpThreads;
  wait_for_previous_kernel();
  allow_next_kernel();
  const size_t first_token = static_cast<size_t>(blockIdx.x) * kTileTokens;
  const size_t token = smaller_size(first_token + warp_index(), args.num_tokens - 1);
  const float* const x = args.x + token * args.hidden;

  float sum = sum_of_norm_warp<kIsWhole>(x, args.hidden, 0);
#pragma unroll
  for (uint32_t warp = 1; warp < kWarps; ++warp)
    sum += sum_of_norm_warp<kIsWhole>(x, args.hidden, warp);
  const float factor = inverse_rms(sum, args.hidden, args.eps);

  // A window of a token is a word for each lane; the two places take turns.
  auto* const places = dynamic_shared<Words4>(0, 2 * kPlaceWords);
  const uint32_t to_token = threadIdx.x % kTileTokens;
  const uint32_t to_core = threadIdx.x / kTileTokens;
  for (size_t window = 0; window * kWindow < args.hidden; ++window) {
    Words4* const place = places + window % 2 * kPlaceWords;
    const size_t column = window * kWindow + lane_index() * kColumns;
    float values[kColumns];
    float weights[kColumns];
    load_columns<kIsWhole>(x, column, args.hidden, values);
    load_columns<kIsWhole>(args.weight, column, args.hidden, weights);
    place[lane_index() * kTileTokens + warp_index()] = normed_columns(values, weights, factor);
    sync_block();
    const size_t to_column = window * kWindow + to_core * kColumns;
    if (to_column >= args.hidden || first_token + to_token >= args.num_tokens) continue;
    store_token_columns(
        args.out,
        first_token + to_token,
        to_column,
        args.hidden,
        args.num_tokens,
        place[threadIdx.x]
    );
  }
}

template <uint32_t kPasses, bool kIsWhole>
void launch_for_tokens(StreamHandle stream, const RmsNormArgs& args) {
  launch(
      stream,
      {.grid = {grid_width(args.num_tokens)},
       .block = {kThreads},
       .num_shared_bytes = kWarps * sizeof(float)},
      token_kernel<kPasses, kIsWhole>,
      args
  );
}

template <bool kIsWhole>
void launch_norm(StreamHandle stream, const RmsNormArgs& args) {
  constexpr size_t kTokensMin = 64;  // that leave as many blocks for a device as it has use for
  const size_t num_passes = div_ceil(args.hidden, size_t{kPassColumns});
  if (args.num_tokens < kTokensMin && num_passes <= kPassesMax) {
    if (num_passes == 1) return launch_for_tokens<1, kIsWhole>(stream, args);
    if (num_passes == 2) return launch_for_tokens<2, kIsWhole>(stream, args);
    return num_passes <= 4 ? launch_for_tokens<4, kIsWhole>(stream, args)
                           : launch_for_tokens<kPassesMax, kIsWhole>(stream, args);
  }
  launch(
      stream,
      {.grid = {grid_width(div_ceil(args.num_tokens, size_t{kTileTokens}))},
       .block = {kThreads},
       .num_shared_bytes = size_t{2} * kTileTokens * kWarpThreads * sizeof(Words4)},
      tile_kernel<kIsWhole>,
      args
  );
}

}  // namespace

void rms_norm(StreamHandle stream, const RmsNormArgs& args) {
  if (args.num_tokens == 0) return;
  CHECK(args.x != nullptr && args.weight != nullptr && args.out != nullptr, "rms_norm's memory");
  CHECK(args.hidden > 0, "a row has columns");
  CHECK(is_aligned(args.x) && is_aligned(args.weight), "16-byte memory");
  args.hidden % kColumns == 0 ? launch_norm<true>(stream, args) : launch_norm<false>(stream, args);
}

}  // namespace millrace::cuda
