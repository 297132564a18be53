#include "kernels/quantized/linear_quantized.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "base/math.h"
#include "kernels/denormals.h"
#include "kernels/dispatch.h"
#include "kernels/panel_pieces.h"
#include "kernels/quantized/encode_rows.h"
#include "kernels/quantized/linear_quantized_kernel.h"

namespace millrace {
namespace {

constexpr size_t kPanelRows = QuantizedMatrix::kPanelRows;

using PanelFunction = void (*)(const QuantizedTask&, size_t, size_t);

constexpr IsaVersions<PanelFunction> kInt8Versions = {
    .reference = linear_quantized_reference<Int8Weights>,
    .avx2 = linear_quantized_avx2<Int8Weights>,
    .avx512 = linear_quantized_avx512<Int8Weights>,
    .avx512_dot = linear_quantized_avx512_dot<Int8Weights>,
    .amx = linear_int8_amx,
    .amx_reference = linear_int8_amx_reference,
};
constexpr IsaVersions<PanelFunction> kInt4Versions = {
    .reference = linear_quantized_reference<Int4Weights>,
    .avx2 = linear_quantized_avx2<Int4Weights>,
    .avx512 = linear_quantized_avx512<Int4Weights>,
    .avx512_dot = linear_quantized_avx512_dot<Int4Weights>,
    .amx = linear_int4_amx,
    .amx_reference = linear_int4_amx_reference,
};

// A scaled code and a half is at most 126.5, an input 127; twice their sum has to fit an int32.
constexpr size_t kScaledInputsMax = size_t{1} << 16;

// What multiplies by these weights.
Executor executor_for(const Executor& executor, const QuantizedMatrix& weights) {
  const bool is_too_wide =
      weights.format() == QuantizedFormat::kInt4 && weights.num_columns() > kScaledInputsMax;
  if (!is_too_wide || reference_of(executor.isa) == Isa::kReference) return executor;
  const Isa isa = executor.isa == Isa::kAmx ? Isa::kAvx512Dot : Isa::kReference;
  return {isa, executor.pool, executor.hint_bytes};
}

void check_shapes(const LinearQuantizedArgs& args, size_t num_threads) {
  const QuantizedMatrix& weights = args.weights;
  CHECK(args.x.num_columns == weights.num_columns(), "x has the weights' inputs");
  CHECK(args.out.num_rows == args.x.num_rows, "one output row a token");
  CHECK(
      args.bias.empty() || args.bias.size() == weights.num_panels() * kPanelRows,
      "a bias covers every packed row"
  );
  CHECK(
      args.rounding == InputRounding::kRow || weights.format() == QuantizedFormat::kInt8,
      "inputs of weights of 4 bits have one scale and one term"
  );
  CHECK(
      args.scratch.size() >= linear_quantized_scratch_bytes(
                                 args.rounding, num_threads, args.x.num_rows, args.x.num_columns
                             ),
      "scratch for the inputs"
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

size_t bytes_of_inputs(InputRounding rounding, size_t num_tokens, size_t num_inputs) {
  const size_t num_bytes = std::max(
      {num_tokens * EncodedRows::row_bytes(num_inputs, rounding),
       RotatedTiles::num_bytes(num_tokens, num_inputs),
       ByteTiles::num_bytes(num_tokens, num_inputs)}
  );
  return round_up<size_t>(num_bytes, 64);
}

// Without its thread's scratch. Puts x into the scratch as the kernel for `executor.isa` reads it.
QuantizedTask make_task(const Executor& executor, const LinearQuantizedArgs& args) {
  QuantizedTask task = {
      .rows = reinterpret_cast<const unsigned char*>(args.scratch.data()),
      .row_stride = 0,
      .num_groups = args.weights.num_groups(),
      .num_terms = num_terms_of(args.rounding),
      .has_row_scales = has_row_scales(args.rounding),
      .panels = static_cast<const unsigned char*>(args.weights.data()),
      .panel_bytes = args.weights.panel_bytes(),
      .output =
          {.num_tokens = args.x.num_rows,
           .bias = args.bias.empty() ? nullptr : args.bias.data(),
           .out = args.out.data,
           .out_stride = args.out.stride,
           .num_outputs = args.out.num_columns,
           .epilogue = args.epilogue,
           .hint_bytes = executor.hint_bytes},
  };
  if (multiplies_bfloat16(executor.isa, args.weights.format())) {
    task.row_stride = rotate_to_tiles(executor, args.x, args.scratch).tile_bytes;
  } else if (reference_of(executor.isa) == Isa::kAmxReference) {
    const ByteTiles tiles = encode_to_tiles(executor, args.x, args.scratch);
    task.row_stride = tiles.tile_bytes;
    task.output.x_rows = tiles.rows;
  } else {
    task.row_stride = encode_rows(executor, args.x, args.rounding, args.scratch).stride;
  }
  return task;
}

}  // namespace

bool multiplies_bfloat16(Isa isa, QuantizedFormat weights) {
  return reference_of(isa) == Isa::kAmxReference && weights == QuantizedFormat::kInt8;
}

size_t linear_quantized_scratch_bytes(
    InputRounding rounding, size_t num_threads, size_t num_tokens, size_t num_inputs
) {
  return bytes_of_inputs(rounding, num_tokens, num_inputs) +
         num_threads * amx_scratch_bytes(num_tokens);
}

void linear_quantized(const Executor& asked, const LinearQuantizedArgs& args) {
  const Executor executor = executor_for(asked, args.weights);
  check_shapes(args, executor.pool.num_threads());
  if (args.x.num_rows == 0) return;
  const QuantizedTask task = make_task(executor, args);
  const bool is_int8 = args.weights.format() == QuantizedFormat::kInt8;
  const PanelFunction function = (is_int8 ? kInt8Versions : kInt4Versions).find(executor.isa);
  const PanelWork work = {
      .panels = args.weights.panels(),
      .num_tokens = args.x.num_rows,
      .next = args.next,
  };
  const size_t num_input_bytes =
      bytes_of_inputs(args.rounding, args.x.num_rows, args.x.num_columns);
  for_panels(executor, work, [&](size_t thread, size_t panel_begin, size_t panel_end) {
    const std::optional<DenormalsAreZero> scope =
        multiplies_bfloat16(executor.isa, args.weights.format())
            ? std::optional<DenormalsAreZero>(std::in_place)
            : std::nullopt;
    QuantizedTask own = task;
    own.output.scratch =
        &args.scratch[num_input_bytes + thread * amx_scratch_bytes(args.x.num_rows)];
    function(own, panel_begin, panel_end);
  });
}

}  // namespace millrace
