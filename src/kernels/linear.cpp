#include "kernels/linear.h"

#include "base/check.h"
#include "base/math.h"
#include "kernels/dispatch.h"
#include "kernels/linear_kernel.h"

namespace millrace {
namespace {

using PanelFunction = void (*)(const LinearTask&, size_t, size_t);

constexpr KernelVersions<PanelFunction> kVersions = {
    .float32 = {linear_reference<float>, linear_avx2<float>, linear_avx512<float>},
    .float16 = {linear_reference<Float16>, linear_avx2<Float16>, linear_avx512<Float16>},
    .bfloat16 = {linear_reference<BFloat16>, linear_avx2<BFloat16>, linear_avx512<BFloat16>},
};

void check_shapes(const LinearArgs& args) {
  const PackedMatrix& weights = args.weights;
  CHECK(args.x.num_columns == weights.num_columns(), "x has the weights' inputs");
  CHECK(args.out.num_rows == args.x.num_rows, "one output row a token");
  CHECK(
      args.bias.empty() || args.bias.size() == weights.num_panels() * PackedMatrix::kPanelRows,
      "a bias covers every packed row"
  );
  if (args.epilogue == LinearEpilogue::kSiluMul) {
    CHECK(
        weights.num_rows() == 2 * round_up(args.out.num_columns, PackedMatrix::kPanelRows),
        "gate and up panels alternate"
    );
  } else {
    CHECK(args.out.num_columns == weights.num_rows(), "out has the weights' outputs");
  }
}

}  // namespace

void linear(const Executor& executor, const LinearArgs& args) {
  check_shapes(args);
  if (args.x.num_rows == 0) return;
  const LinearTask task = {
      .x = args.x.data,
      .x_stride = args.x.stride,
      .num_tokens = args.x.num_rows,
      .num_inputs = args.x.num_columns,
      .weights = args.weights.data(),
      .panel_size = args.weights.panel_size(),
      .bias = args.bias.empty() ? nullptr : args.bias.data(),
      .out = args.out.data,
      .out_stride = args.out.stride,
      .num_outputs = args.out.num_columns,
      .epilogue = args.epilogue,
  };
  const PanelFunction function = kVersions.find(executor.isa, args.weights.dtype());
  const size_t panels_per_unit = args.epilogue == LinearEpilogue::kSiluMul ? 2 : 1;
  const size_t num_units = args.weights.num_panels() / panels_per_unit;
  executor.pool.parallel_for(num_units, [&](size_t begin, size_t end) {
    function(task, begin * panels_per_unit, end * panels_per_unit);
  });
}

}  // namespace millrace
