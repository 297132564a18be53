#include "base/check.h"
#include "base/math.h"
#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/join_columns.h"
#include "cuda/kernels/launch_limits.h"

namespace millrace::cuda {
namespace {

constexpr uint32_t kThreads = 128;
constexpr size_t kColumnsPerBlock = 8 * kThreads;  // enough blocks for one row of a vocabulary

__global__ void __launch_bounds__(kThreads) join_kernel(JoinColumnsArgs args) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const size_t row = blockIdx.y;
  const size_t begin = blockIdx.x * kColumnsPerBlock;
  const size_t rest = args.width - begin;
  const size_t end = begin + (rest < kColumnsPerBlock ? rest : kColumnsPerBlock);
  for (size_t i = begin + threadIdx.x; i < end; i += kThreads) {
    const size_t part_row = i / args.part_width * args.num_rows + row;
    args.out[row * args.width + i] = args.parts[part_row * args.part_width + i % args.part_width];
  }
}

}  // namespace

void join_columns(StreamHandle stream, const JoinColumnsArgs& args) {
  if (args.num_rows == 0) return;
  CHECK(args.parts != nullptr && args.out != nullptr, "join_columns' memory");
  CHECK(args.width > 0 && args.part_width > 0, "a row has columns");
  const uint32_t num_blocks = grid_width(div_ceil(args.width, kColumnsPerBlock));
  launch(
      stream,
      {.grid = {num_blocks, grid_height(args.num_rows)}, .block = {kThreads}},
      join_kernel,
      args
  );
}

}  // namespace millrace::cuda
