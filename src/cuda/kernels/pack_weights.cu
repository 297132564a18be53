#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/launch_limits.h"
#include "cuda/kernels/operand_tiles.h"
#include "cuda/kernels/pack_weights.h"

namespace millrace::cuda {
namespace {

constexpr uint32_t kThreads = 256;

__device__ size_t packed_row(RowPlaces places, size_t row) {
  if (places == RowPlaces::kFollowing) return row;
  return row / 8 * kTileRows + (places == RowPlaces::kUp ? 8 : 0) + row % 8;
}

// Grid: rows. Two bytes at a time, since it runs at load only.
__global__ void __launch_bounds__(kThreads) pack_kernel(PackWeightsArgs args) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const size_t row = blockIdx.x;
  const size_t to = packed_row(args.places, args.first_row + row);
  const BFloat16Bits* const from = args.rows + row * args.num_inputs;
  for (size_t i = threadIdx.x; i < args.num_inputs; i += kThreads) {
    args.packed[weight_element(to, i, args.num_inputs)] = from[i];
  }
}

}  // namespace

void pack_weights(StreamHandle stream, const PackWeightsArgs& args) {
  if (args.num_rows == 0) return;
  CHECK(args.rows != nullptr && args.packed != nullptr, "pack_weights' memory");
  CHECK(args.num_inputs > 0, "a row has inputs");
  launch(stream, {.grid = {grid_width(args.num_rows)}, .block = {kThreads}}, pack_kernel, args);
}

}  // namespace millrace::cuda
