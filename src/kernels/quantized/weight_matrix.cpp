#include "kernels/quantized/weight_matrix.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kernels/quantized/linear_quantized.h"

namespace millrace {

MatrixFormat WeightFormat::of_layers() const {
  if (quantization) return quantization->format;
  return dtype;
}

MatrixFormat WeightFormat::of_head() const {
  if (!quantization) return dtype;
  const bool is_of_rows = quantization->rounding == InputRounding::kRow;
  return is_of_rows ? QuantizedFormat::kInt6 : QuantizedFormat::kInt8;
}

Result<WeightMatrix> WeightMatrix::allocate(
    MatrixFormat format, size_t num_rows, size_t num_columns
) {
  WeightMatrix matrix;
  if (const auto* dtype = std::get_if<DType>(&format)) {
    Result<PackedMatrix> packed = PackedMatrix::allocate(*dtype, num_rows, num_columns);
    if (!packed) return packed.error();
    matrix.matrix_ = *std::move(packed);
  } else {
    Result<QuantizedMatrix> quantized =
        QuantizedMatrix::allocate(std::get<QuantizedFormat>(format), num_rows, num_columns);
    if (!quantized) return quantized.error();
    matrix.matrix_ = *std::move(quantized);
  }
  return matrix;
}

std::optional<size_t> WeightMatrix::num_bytes(
    MatrixFormat format, size_t num_rows, size_t num_columns
) {
  if (const auto* dtype = std::get_if<DType>(&format)) {
    return PackedMatrix::num_bytes(*dtype, num_rows, num_columns);
  }
  return QuantizedMatrix::num_bytes(std::get<QuantizedFormat>(format), num_rows, num_columns);
}

size_t WeightMatrix::num_rows() const {
  return std::visit([](const auto& matrix) { return matrix.num_rows(); }, matrix_);
}
size_t WeightMatrix::num_columns() const {
  return std::visit([](const auto& matrix) { return matrix.num_columns(); }, matrix_);
}
size_t WeightMatrix::num_bytes() const {
  return std::visit([](const auto& matrix) { return matrix.num_bytes(); }, matrix_);
}

PanelData WeightMatrix::panels() const {
  return std::visit([](const auto& matrix) { return matrix.panels(); }, matrix_);
}
void WeightMatrix::copy_row(size_t row, std::span<float> out) const {
  std::visit([&](const auto& matrix) { matrix.copy_row(row, out); }, matrix_);
}
size_t WeightMatrix::num_bytes_read() const {
  return packed() != nullptr ? packed()->num_bytes_read() : num_bytes();
}
bool WeightMatrix::holds_all_weights() const {
  return packed() == nullptr || packed()->holds_all_weights();
}

void WeightMatrix::pack_panel(size_t panel, std::span<const float> rows, Isa isa) {
  std::visit([&](auto& matrix) { matrix.pack_panel(panel, rows, isa); }, matrix_);
}

void WeightMatrix::pack_panel(
    size_t panel, std::span<const float> rows, const ErrorFeedback& feedback
) {
  if (QuantizedMatrix* const matrix = quantized()) {
    matrix->pack_panel(panel, rows, feedback);
  } else {
    pack_panel(panel, rows);
  }
}

size_t multiply_scratch_bytes(
    const WeightFormat& format, size_t num_threads, size_t num_tokens, size_t num_inputs
) {
  const auto plain = [&] {
    return linear_scratch_bytes(format.dtype, num_threads, num_tokens, num_inputs);
  };
  if (!format.quantization) return plain();
  // Of words, rows whose groups have scales of their own are no shorter than those that have one.
  const InputRounding longest =
      format.quantization->keeps_codes() ? InputRounding::kUnrotated : InputRounding::kGroups;
  const size_t quantized =
      linear_quantized_scratch_bytes(longest, num_threads, num_tokens, num_inputs);
  // Beside codes there may be matrices of other formats.
  return are_codes(format.quantization->format) ? std::max(quantized, plain()) : quantized;
}

RowsForm form_between(
    Isa isa, const WeightMatrix& first, const WeightMatrix& next, ConstRows rows
) {
  if (first.packed() == nullptr || next.packed() == nullptr) return RowsForm::kFloats;
  return form_between(isa, first.packed()->dtype(), next.packed()->dtype(), rows);
}

void multiply(const Executor& executor, const MultiplyArgs& args) {
  if (const PackedMatrix* packed = args.weights.packed()) {
    linear(
        executor,
        {.x = args.x,
         .weights = *packed,
         .bias = args.bias,
         .out = args.out,
         .epilogue = args.epilogue,
         .x_form = args.x_form,
         .out_form = args.out_form,
         .scratch = args.scratch,
         .next = args.next,
         .norm = args.norm,
         .groups = args.groups}
    );
    return;
  }
  CHECK(
      args.x_form == RowsForm::kFloats && args.out_form == RowsForm::kFloats,
      "quantized weights multiply floats"
  );
  linear_quantized(
      executor,
      {.x = args.x,
       .weights = *args.weights.quantized(),
       .bias = args.bias,
       .out = args.out,
       .epilogue = args.epilogue,
       .rounding = args.rounding,
       .scratch = args.scratch,
       .next = args.next,
       .norm = args.norm,
       .groups = args.groups}
  );
}

}  // namespace millrace
