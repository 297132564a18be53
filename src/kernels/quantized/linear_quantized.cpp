#include "kernels/quantized/linear_quantized.h"

#include "base/check.h"
#include "base/math.h"
#include "kernels/dispatch.h"
#include "kernels/quantized/linear_quantized_kernel.h"

namespace millrace {
namespace {

constexpr size_t kPanelRows = QuantizedMatrix::kPanelRows;

using PanelFunction = void (*)(const QuantizedTask&, size_t, size_t);

template <class Weights>
constexpr IsaVersions<PanelFunction> kVersions = {
    linear_quantized_reference<Weights>,
    linear_quantized_avx2<Weights>,
    linear_quantized_avx512<Weights>,
    linear_quantized_avx512_dot<Weights>,
    linear_quantized_amx<Weights>,
};

PanelFunction find_version(Isa isa, QuantizedFormat format) {
  return format == QuantizedFormat::kInt8 ? kVersions<Int8Weights>.find(isa)
                                          : kVersions<Int4Weights>.find(isa);
}

void check_shapes(const LinearQuantizedArgs& args) {
  const QuantizedMatrix& weights = args.weights;
  CHECK(args.x.num_groups == weights.num_groups(), "x has the weights' inputs");
  CHECK(args.out.num_rows == args.x.num_rows, "one output row a token");
  CHECK(
      args.bias.empty() || args.bias.size() == weights.num_panels() * kPanelRows,
      "a bias covers every packed row"
  );
  if (args.epilogue == LinearEpilogue::kSiluMul) {
    CHECK(
        weights.num_rows() == 2 * round_up(args.out.num_columns, kPanelRows),
        "gate and up panels alternate"
    );
  } else {
    CHECK(args.out.num_columns == weights.num_rows(), "out has the weights' outputs");
  }
}

}  // namespace

void linear_quantized(const Executor& executor, const LinearQuantizedArgs& args) {
  check_shapes(args);
  if (args.x.num_rows == 0) return;
  const QuantizedTask task = {
      .rows = reinterpret_cast<const unsigned char*>(args.x.data),
      .row_stride = args.x.stride,
      .num_groups = args.x.num_groups,
      .num_terms = args.x.num_terms,
      .panels = static_cast<const unsigned char*>(args.weights.data()),
      .panel_bytes = args.weights.panel_bytes(),
      .output =
          {.num_tokens = args.x.num_rows,
           .bias = args.bias.empty() ? nullptr : args.bias.data(),
           .out = args.out.data,
           .out_stride = args.out.stride,
           .num_outputs = args.out.num_columns,
           .epilogue = args.epilogue},
  };
  const PanelFunction function = find_version(executor.isa, args.weights.format());
  const size_t panels_per_unit = args.epilogue == LinearEpilogue::kSiluMul ? 2 : 1;
  const size_t num_units = args.weights.num_panels() / panels_per_unit;
  executor.pool.parallel_for(num_units, [&](size_t begin, size_t end) {
    function(task, begin * panels_per_unit, end * panels_per_unit);
  });
}

}  // namespace millrace
