#include "kernels/linear.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "kernels/bfloat16_rows.h"
#include "kernels/denormals.h"
#include "kernels/dispatch.h"
#include "kernels/linear_kernel.h"
#include "kernels/panel_pieces.h"

namespace millrace {
namespace {

// A row of encoded inputs starts at a cache line.
constexpr size_t kInputsPerScratchRow = 32;

using PanelFunction = void (*)(const LinearTask&, size_t, size_t);

constexpr KernelVersions<PanelFunction> kVersions = {
    .float32 = {linear_reference<float>, linear_avx2<float>, linear_avx512<float>},
    .float16 = {linear_reference<Float16>, linear_avx2<Float16>, linear_avx512<Float16>},
    .bfloat16 =
        {.reference = linear_reference<BFloat16>,
         .avx2 = linear_avx2<BFloat16>,
         .avx512 = linear_avx512<BFloat16>,
         .avx512_dot = linear_avx512_dot,
         .amx = linear_amx,
         .amx_reference = linear_amx_reference},
};

void check_forms(const Executor& executor, const LinearArgs& args) {
  const DType dtype = args.weights.dtype();
  const auto may_be_tiles = [&](ConstRows rows) {
    return rows.num_rows == 0 || form_between(executor.isa, dtype, dtype, rows) == RowsForm::kTiles;
  };
  CHECK(args.x_form == RowsForm::kFloats || may_be_tiles(args.x), "x may stand in tiles");
  CHECK(args.out_form == RowsForm::kFloats || may_be_tiles(args.out), "out may stand in tiles");
  CHECK(
      args.out_form == RowsForm::kFloats || args.epilogue == LinearEpilogue::kSiluMul,
      "what is added or stored is floats"
  );
  CHECK(
      args.norm == nullptr || (!args.groups && args.x_form == RowsForm::kFloats),
      "what is normalized is floats of one group"
  );
  CHECK(
      !args.groups || (args.x_form == RowsForm::kFloats && args.out_form == RowsForm::kFloats),
      "groups of rows are floats"
  );
}

void check_shapes(const Executor& executor, const LinearArgs& args) {
  const PackedMatrix& weights = args.weights;
  CHECK(args.x.num_columns == weights.num_columns(), "x has the weights' inputs");
  CHECK(args.out.num_rows == args.x.num_rows, "one output row a token");
  CHECK(
      weights.bfloat16_panels() == BFloat16Panels::kPacked || executor.isa <= Isa::kAvx2,
      "whole panels are for AVX2 alone"
  );
  CHECK(
      args.bias.empty() || args.bias.size() == weights.num_panels() * PackedMatrix::kPanelRows,
      "a bias covers every packed row"
  );
  CHECK(
      args.scratch.size() >=
          linear_scratch_bytes(
              weights.dtype(), executor.pool.num_threads(), args.x.num_rows, args.x.num_columns
          ),
      "scratch for the inputs"
  );
  check_outputs(
      {.out = args.out, .epilogue = args.epilogue, .groups = args.groups},
      weights.num_rows(),
      weights.panels()
  );
}

// Floats in rows; also as many as bfloat16 takes in tiles, less than half of which are empty.
size_t bytes_of_inputs(size_t num_tokens, size_t num_inputs) {
  return num_tokens * round_up(num_inputs, kInputsPerScratchRow) * sizeof(float);
}
// Where one thread unpacks panels, or keeps sums.
size_t thread_scratch_bytes(size_t num_tokens) {
  return std::max(kUnpackedBytesMax, amx_scratch_bytes(num_tokens));
}

// Inputs as the kernel for `executor.isa` reads them.
struct EncodedInputs {
  const std::byte* data;
  size_t stride;         // elements from a row, or tile, to the next
  size_t element_bytes;  // 0: tiles, which each group has of its own
};

// Of all rows, in the scratch or where they are. What has groups multiplies few rows of each: one
// phase encodes them all.
EncodedInputs encode_rows(const Executor& executor, const LinearArgs& args) {
  const ConstRows& x = args.x;
  if (args.weights.dtype() != DType::kBFloat16) {
    if (args.norm != nullptr) executor.for_row_ranges(x.num_rows, x.num_columns, *args.norm);
    return {reinterpret_cast<const std::byte*>(x.data), x.stride, sizeof(float)};
  }
  const size_t stride = round_up(x.num_columns, kInputsPerScratchRow);
  std::byte* const place = args.scratch.data();
  if (executor.isa >= Isa::kAvx512Dot) {
    auto* rows = reinterpret_cast<BFloat16*>(place);
    to_bfloat16_rows(executor, x, {rows, x.num_rows, x.num_columns, stride}, args.norm);
    return {place, stride, sizeof(BFloat16)};
  }
  auto* rows = reinterpret_cast<float*>(place);
  round_to_bfloat16_rows(executor, x, {rows, x.num_rows, x.num_columns, stride}, args.norm);
  return {place, stride, sizeof(float)};
}

EncodedInputs encode_inputs(const Executor& executor, const LinearArgs& args) {
  const bool are_tiles = takes_tiles(executor.isa, args.weights.dtype());
  return are_tiles ? EncodedInputs{} : encode_rows(executor, args);
}

// The part of all inputs that is a group's, whose tiles are written now.
EncodedInputs inputs_of(
    const Executor& executor,
    const LinearArgs& args,
    const EncodedInputs& inputs,
    const RowGroup& group
) {
  if (inputs.element_bytes > 0) {
    const size_t begin = group.row_begin * inputs.stride * inputs.element_bytes;
    return {inputs.data + begin, inputs.stride, inputs.element_bytes};
  }
  const ConstRows x = args.x.range(group.row_begin, group.num_rows);
  const size_t tile_size = std::min(x.num_rows, kInputTileRows) * kInputTileColumns;
  if (args.x_form == RowsForm::kTiles) {
    return {reinterpret_cast<const std::byte*>(x.data), tile_size, 0};
  }
  std::byte* const place = &args.scratch[bytes_of_inputs(group.row_begin, x.num_columns)];
  to_bfloat16_tiles(executor, x, reinterpret_cast<BFloat16*>(place), args.norm);
  return {place, tile_size, 0};
}

LinearTask make_task(
    const Executor& executor,
    const LinearArgs& args,
    const EncodedInputs& x,
    const RowGroup& group,
    size_t first_panel
) {
  const PackedMatrix& weights = args.weights;
  const auto* panels = static_cast<const std::byte*>(weights.data());
  return {
      .x = x.data,
      .x_stride = x.stride,
      .num_tokens = group.num_rows,
      .num_inputs = args.x.num_columns,
      .weights = panels + first_panel * weights.panels().panel_bytes,
      .panel_size = weights.panel_size(),
      .bfloat16_panels = weights.bfloat16_panels(),
      .exceptions = weights.exceptions().empty() ? nullptr : &weights.exceptions()[first_panel],
      .scratch = nullptr,
      .bias = args.bias.empty() ? nullptr : &args.bias[first_panel * PackedMatrix::kPanelRows],
      .out = args.out.row(group.row_begin),
      .out_stride = args.out.stride,
      .num_outputs = args.out.num_columns,
      .epilogue = args.epilogue,
      .hint_bytes = executor.hint_bytes,
      .out_tiles =
          args.out_form == RowsForm::kTiles ? reinterpret_cast<BFloat16*>(args.out.data) : nullptr,
  };
}

}  // namespace

bool takes_tiles(Isa isa, DType weights) {
  return isa == Isa::kAmx && weights == DType::kBFloat16;
}

RowsForm form_between(Isa isa, DType first, DType next, ConstRows rows) {
  const size_t tile_rows = std::min(rows.num_rows, kInputTileRows);
  const size_t num_columns = round_up(rows.num_columns, kInputTileColumns);
  const bool has_room =
      rows.num_rows > 0 && round_up(rows.num_rows, tile_rows) * num_columns * sizeof(BFloat16) <=
                               rows.num_rows * rows.num_columns * sizeof(float);
  const bool is_dense = rows.stride == rows.num_columns;
  return takes_tiles(isa, first) && takes_tiles(isa, next) && has_room && is_dense
             ? RowsForm::kTiles
             : RowsForm::kFloats;
}

size_t linear_scratch_bytes(
    DType weights, size_t num_threads, size_t num_tokens, size_t num_inputs
) {
  if (weights != DType::kBFloat16 || num_tokens == 0) return 0;
  return bytes_of_inputs(num_tokens, num_inputs) + num_threads * thread_scratch_bytes(num_tokens);
}

void linear(const Executor& executor, const LinearArgs& args) {
  check_shapes(executor, args);
  check_forms(executor, args);
  if (args.x.num_rows == 0) return;
  const bool is_bfloat16 = args.weights.dtype() == DType::kBFloat16;
  const size_t num_input_bytes = bytes_of_inputs(args.x.num_rows, args.x.num_columns);
  const size_t num_thread_bytes = thread_scratch_bytes(args.x.num_rows);
  const PanelFunction function = kVersions.find(executor.isa, args.weights.dtype());
  const EncodedInputs inputs = encode_inputs(executor, args);
  const GroupedWork work = {
      .panels = args.weights.panels(),
      .num_rows = args.x.num_rows,
      .groups = args.groups,
      .next = args.next,
  };
  const auto make = [&](const RowGroup& group, size_t first_panel) {
    return make_task(executor, args, inputs_of(executor, args, inputs, group), group, first_panel);
  };
  const auto run = [&](size_t thread, LinearTask task, size_t panel_begin, size_t panel_end) {
    const std::optional<DenormalsAreZero> scope =
        is_bfloat16 ? std::optional<DenormalsAreZero>(std::in_place) : std::nullopt;
    if (is_bfloat16) task.scratch = &args.scratch[num_input_bytes + thread * num_thread_bytes];
    function(task, panel_begin, panel_end);
  };
  for_grouped_panels<LinearTask>(executor, work, make, run);
}

}  // namespace millrace
