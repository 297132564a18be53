#include "kernels/linear.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "kernels/bfloat16_rows.h"
#include "kernels/denormals.h"
#include "kernels/dispatch.h"
#include "kernels/linear_kernel.h"

namespace millrace {
namespace {

// A row of encoded inputs starts at a cache line.
constexpr size_t kInputsPerScratchRow = 32;

using PanelFunction = void (*)(const LinearTask&, size_t, size_t);

constexpr KernelVersions<PanelFunction> kVersions = {
    .float32 = {linear_reference<float>, linear_avx2<float>, linear_avx512<float>},
    .float16 = {linear_reference<Float16>, linear_avx2<Float16>, linear_avx512<Float16>},
    .bfloat16 =
        {linear_reference<BFloat16>,
         linear_avx2<BFloat16>,
         linear_avx512<BFloat16>,
         linear_avx512_dot},
};

void check_shapes(const LinearArgs& args) {
  const PackedMatrix& weights = args.weights;
  CHECK(args.x.num_columns == weights.num_columns(), "x has the weights' inputs");
  CHECK(args.out.num_rows == args.x.num_rows, "one output row a token");
  CHECK(
      args.bias.empty() || args.bias.size() == weights.num_panels() * PackedMatrix::kPanelRows,
      "a bias covers every packed row"
  );
  CHECK(
      args.scratch.size() >=
          linear_scratch_bytes(weights.dtype(), args.x.num_rows, args.x.num_columns),
      "scratch for the inputs"
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

// Puts x into the scratch as the kernel for `executor.isa` reads it.
struct EncodedInputs {
  const void* data;
  size_t stride;
};
EncodedInputs encode_inputs(const Executor& executor, const LinearArgs& args) {
  if (args.weights.dtype() != DType::kBFloat16) return {args.x.data, args.x.stride};
  const size_t stride = round_up(args.x.num_columns, kInputsPerScratchRow);
  if (executor.isa == Isa::kAvx512Dot) {
    auto* rows = reinterpret_cast<BFloat16*>(args.scratch.data());
    to_bfloat16_rows(executor, args.x, {rows, args.x.num_rows, args.x.num_columns, stride});
    return {rows, stride};
  }
  auto* rows = reinterpret_cast<float*>(args.scratch.data());
  round_to_bfloat16_rows(executor, args.x, {rows, args.x.num_rows, args.x.num_columns, stride});
  return {rows, stride};
}

}  // namespace

size_t linear_scratch_bytes(DType weights, size_t num_tokens, size_t num_inputs) {
  if (weights != DType::kBFloat16) return 0;
  return num_tokens * round_up(num_inputs, kInputsPerScratchRow) * sizeof(float);
}

void linear(const Executor& executor, const LinearArgs& args) {
  check_shapes(args);
  if (args.x.num_rows == 0) return;
  const EncodedInputs x = encode_inputs(executor, args);
  const LinearTask task = {
      .x = x.data,
      .x_stride = x.stride,
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
  const bool flushes = args.weights.dtype() == DType::kBFloat16;
  const size_t panels_per_unit = args.epilogue == LinearEpilogue::kSiluMul ? 2 : 1;
  const size_t num_units = args.weights.num_panels() / panels_per_unit;
  executor.pool.parallel_for(num_units, [&](size_t begin, size_t end) {
    const std::optional<DenormalsAreZero> scope =
        flushes ? std::optional<DenormalsAreZero>(std::in_place) : std::nullopt;
    function(task, begin * panels_per_unit, end * panels_per_unit);
  });
}

}  // namespace millrace
