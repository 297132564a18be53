#include "base/check.h"
#include "cuda/kernels/arithmetic.cuh"
#include "cuda/kernels/hidden_rows.h"
#include "cuda/kernels/launch_limits.h"

namespace millrace::cuda {
namespace {

constexpr uint32_t kThreads = 128;

__device__ void copy_row(const float* from, float* to, size_t width) {
  for (size_t i = threadIdx.x; i < width; i += kThreads) to[i] = from[i];
}

__global__ void __launch_bounds__(kThreads) gather_kernel(GatherRowsArgs args) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const RowSource source = args.sources[blockIdx.x];
  const float* const rows = source.is_saved != 0 ? args.saved : args.hidden;
  const size_t index = static_cast<size_t>(source.index);
  copy_row(rows + index * args.width, args.out + blockIdx.x * args.width, args.width);
}

__global__ void __launch_bounds__(kThreads) save_kernel(SaveRowsArgs args) {
  wait_for_previous_kernel();
  allow_next_kernel();
  const RowSave save = args.saves[blockIdx.x];
  const size_t token = static_cast<size_t>(save.token);
  const size_t slot = static_cast<size_t>(save.slot);
  copy_row(args.hidden + token * args.width, args.saved + slot * args.width, args.width);
}

}  // namespace

void gather_rows(StreamHandle stream, const GatherRowsArgs& args) {
  if (args.num_rows == 0) return;
  CHECK(args.sources != nullptr && args.out != nullptr, "gather_rows' memory");
  CHECK(args.hidden != nullptr || args.saved != nullptr, "rows to gather");
  CHECK(args.width > 0, "a row has columns");
  launch(stream, {.grid = {grid_width(args.num_rows)}, .block = {kThreads}}, gather_kernel, args);
}

void save_rows(StreamHandle stream, const SaveRowsArgs& args) {
  if (args.num_rows == 0) return;
  CHECK(
      args.hidden != nullptr && args.saved != nullptr && args.saves != nullptr, "save_rows' memory"
  );
  CHECK(args.width > 0, "a row has columns");
  launch(stream, {.grid = {grid_width(args.num_rows)}, .block = {kThreads}}, save_kernel, args);
}

}  // namespace millrace::cuda
