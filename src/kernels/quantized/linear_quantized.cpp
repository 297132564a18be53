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
    .avx512_vnni = linear_quantized_avx512_vnni<Int8Weights>,
    .amx = linear_int8_amx,
    .amx_reference = linear_int8_amx_reference,
};
constexpr IsaVersions<PanelFunction> kInt4Versions = {
    .reference = linear_quantized_reference<Int4Weights>,
    .avx2 = linear_quantized_avx2<Int4Weights>,
    .avx512 = linear_quantized_avx512<Int4Weights>,
    .avx512_vnni = linear_quantized_avx512_vnni<Int4Weights>,
    .amx = linear_int4_amx,
    .amx_reference = linear_int4_amx_reference,
};
template <class Weights>
constexpr IsaVersions<PanelFunction> kVersionsWithoutTiles = {
    .reference = linear_quantized_reference<Weights>,
    .avx2 = linear_quantized_avx2<Weights>,
    .avx512 = linear_quantized_avx512<Weights>,
    .avx512_vnni = linear_quantized_avx512_vnni<Weights>,
};

// Of each of kCodeFormats.
template <size_t... kIndex>
constexpr std::array<IsaVersions<PanelFunction>, kNumCodeFormats>
versions_of_codes(std::index_sequence<kIndex...>) {
  return {kVersionsWithoutTiles<CodedWeights<format_of_index(kIndex)>>...};
}

const IsaVersions<PanelFunction>& versions_of(QuantizedFormat format) {
  static constexpr auto kOfCodes = versions_of_codes(std::make_index_sequence<kNumCodeFormats>());
  if (are_codes(format)) return kOfCodes[code_format_index(format)];
  if (format == QuantizedFormat::kInt6) return kVersionsWithoutTiles<Int6Weights>;
  return format == QuantizedFormat::kInt8 ? kInt8Versions : kInt4Versions;
}

bool fits(InputRounding rounding, QuantizedFormat format) {
  if (are_codes(format)) return rounding == InputRounding::kUnrotated;
  if (format != QuantizedFormat::kInt8) return rounding == InputRounding::kRow;
  return rounding == InputRounding::kGroups || rounding == InputRounding::kTwoTerms;
}

// A scaled code and a half is at most 115.5, an input 127; twice their sum has to fit an int32.
constexpr size_t kScaledInputsMax = size_t{1} << 16;

// What multiplies by these weights: no tiles where those would not do.
Executor executor_for(const Executor& executor, const QuantizedMatrix& weights) {
  const bool takes_tiles =
      weights.format() == QuantizedFormat::kInt8 ||
      (weights.format() == QuantizedFormat::kInt4 && weights.num_columns() <= kScaledInputsMax);
  if (takes_tiles || reference_of(executor.isa) == Isa::kReference) return executor;
  const Isa isa = executor.isa == Isa::kAmx ? Isa::kAvx512Vnni : Isa::kReference;
  return {isa, executor.pool, executor.hint_bytes};
}

// That there is room for.
size_t num_scratch_rows(const LinearQuantizedArgs& args) {
  return args.x.num_rows * (args.groups ? kGroupedRowsFactor : 1);
}

void check_shapes(const LinearQuantizedArgs& args, size_t num_threads) {
  const QuantizedMatrix& weights = args.weights;
  CHECK(args.x.num_columns == weights.num_columns(), "x has the weights' inputs");
  CHECK(args.out.num_rows == args.x.num_rows, "one output row a token");
  CHECK(
      args.bias.empty() || args.bias.size() == weights.num_panels() * kPanelRows,
      "a bias covers every packed row"
  );
  CHECK(args.norm == nullptr || !args.groups, "what is normalized is one group");
  CHECK(fits(args.rounding, weights.format()), "inputs are rounded as these weights want them");
  CHECK(
      args.scratch.size() >=
          linear_quantized_scratch_bytes(
              args.rounding, num_threads, num_scratch_rows(args), args.x.num_columns
          ),
      "scratch for the inputs"
  );
  check_outputs(
      {.out = args.out, .epilogue = args.epilogue, .groups = args.groups},
      weights.num_rows(),
      weights.panels()
  );
}

size_t bytes_of_inputs(InputRounding rounding, size_t num_tokens, size_t num_inputs) {
  const size_t num_bytes = std::max(
      {num_tokens * EncodedRows::row_bytes(num_inputs, rounding, InputForm::kWords),
       RotatedTiles::num_bytes(num_tokens, num_inputs),
       ByteTiles::num_bytes(num_tokens, num_inputs)}
  );
  return round_up<size_t>(num_bytes, 64);
}

// Inputs as the kernel for an instruction set reads them.
struct EncodedInputs {
  const std::byte* data;
  size_t row_bytes;     // from a row, or tile, to the next
  const ByteRow* rows;  // of tiles of bytes, else null
};

// Puts all rows into the scratch: what has groups multiplies few rows of each, and one phase
// encodes them all. Nothing where each group has tiles of its own.
EncodedInputs encode_inputs(const Executor& executor, const LinearQuantizedArgs& args) {
  if (reference_of(executor.isa) == Isa::kAmxReference) return {};
  const EncodedRows rows = encode_rows(executor, args.x, args.rounding, args.scratch, args.norm);
  return {rows.data, rows.stride, nullptr};
}

// The part of all inputs that is a group's, whose tiles are written now.
EncodedInputs inputs_of(
    const Executor& executor,
    const LinearQuantizedArgs& args,
    const EncodedInputs& inputs,
    const RowGroup& group
) {
  if (inputs.data != nullptr) {
    return {inputs.data + group.row_begin * inputs.row_bytes, inputs.row_bytes, nullptr};
  }
  const ConstRows x = args.x.range(group.row_begin, group.num_rows);
  // Of tiles that hold fewer rows than they have room for, less than half is empty.
  const size_t row_bytes = RotatedTiles::num_bytes(1, x.num_columns);
  const std::span<std::byte> place =
      args.scratch.subspan(kGroupedRowsFactor * group.row_begin * row_bytes);
  if (multiplies_bfloat16(executor.isa, args.weights.format())) {
    return {place.data(), rotate_to_tiles(executor, x, place, args.norm).tile_bytes, nullptr};
  }
  const ByteTiles tiles = encode_to_tiles(executor, x, place, args.norm);
  return {place.data(), tiles.tile_bytes, tiles.rows};
}

// Unpacking takes places of products on Intel's processors, which prefer that level, and on Zen 4
// places that nobody else wants (docs/decisions/0035).
bool unpacks_pairs(Isa isa) {
  return isa == Isa::kAvx512Vnni;
}

// Without its thread's scratch.
QuantizedTask make_task(
    const Executor& executor,
    const LinearQuantizedArgs& args,
    const EncodedInputs& inputs,
    const RowGroup& group,
    size_t first_panel
) {
  const size_t panel_bytes = args.weights.panel_bytes();
  return {
      .rows = reinterpret_cast<const unsigned char*>(inputs.data),
      .row_stride = inputs.row_bytes,
      .num_groups = args.weights.num_groups(),
      .value_bytes =
          EncodedRows::value_bytes(args.rounding, input_form(executor.isa, args.rounding)),
      .has_row_scales = has_row_scales(args.rounding),
      .unpacks_pairs = unpacks_pairs(executor.isa),
      .panels = static_cast<const unsigned char*>(args.weights.data()) + first_panel * panel_bytes,
      .panel_bytes = panel_bytes,
      .output =
          {.x_rows = inputs.rows,
           .num_tokens = group.num_rows,
           .bias = args.bias.empty() ? nullptr : &args.bias[first_panel * kPanelRows],
           .out = args.out.row(group.row_begin),
           .out_stride = args.out.stride,
           .num_outputs = args.out.num_columns,
           .epilogue = args.epilogue,
           .hint_bytes = executor.hint_bytes},
  };
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
  const PanelFunction function = versions_of(args.weights.format()).find(executor.isa);
  const size_t num_input_bytes =
      bytes_of_inputs(args.rounding, num_scratch_rows(args), args.x.num_columns);
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
  const auto run = [&](size_t thread, QuantizedTask task, size_t panel_begin, size_t panel_end) {
    const std::optional<DenormalsAreZero> scope =
        multiplies_bfloat16(executor.isa, args.weights.format())
            ? std::optional<DenormalsAreZero>(std::in_place)
            : std::nullopt;
    task.output.scratch =
        &args.scratch[num_input_bytes + thread * amx_scratch_bytes(args.x.num_rows)];
    function(task, panel_begin, panel_end);
  };
  for_grouped_panels<QuantizedTask>(executor, work, make, run);
}

}  // namespace millrace
