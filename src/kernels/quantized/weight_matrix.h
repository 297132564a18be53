// A weight matrix in whatever format it is kept, and the product with it: the one place that knows
// both families of formats. Written once at load; afterwards read-only and shared.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <variant>

#include "kernels/executor.h"
#include "kernels/linear.h"
#include "kernels/packed_matrix.h"
#include "kernels/quantized/linear_quantized.h"
#include "kernels/quantized/quantization.h"
#include "kernels/quantized/quantized_matrix.h"
#include "kernels/rows.h"

namespace millrace {

using MatrixFormat = std::variant<DType, QuantizedFormat>;

// How the matrices of a model are kept.
struct WeightFormat {
  DType dtype = DType::kBFloat16;
  std::optional<Quantization> quantization = {};  // none: all of them in `dtype`

  MatrixFormat of_embedding() const { return dtype; }  // rows of it are looked up
  MatrixFormat of_layers() const;
  // Of more bits than int4 has: each token that is chosen passes through it. int6 beside int4,
  // whose inputs are rounded alike, else int8.
  MatrixFormat of_head() const;
};

class WeightMatrix {
 public:
  static constexpr size_t kPanelRows = 16;

  WeightMatrix() = default;

  // kResourceExhausted when there is no such memory.
  static Result<WeightMatrix> allocate(MatrixFormat format, size_t num_rows, size_t num_columns);
  // What allocate() takes; nullopt when that does not fit a size_t.
  static std::optional<size_t> num_bytes(MatrixFormat format, size_t num_rows, size_t num_columns);

  size_t num_rows() const;
  size_t num_columns() const;
  size_t num_bytes() const;
  PanelData panels() const;
  size_t num_bytes_read() const;  // by a product

  // False: PackedMatrix had no room for some weights.
  bool holds_all_weights() const;

  // As PackedMatrix::pack_panel() and QuantizedMatrix::pack_panel().
  void pack_panel(size_t panel, std::span<const float> rows, Isa isa = best_isa());
  // The same with feedback where the matrix is quantized.
  void pack_panel(size_t panel, std::span<const float> rows, const ErrorFeedback& feedback);

  // One row of what is kept. `out`: [num_columns()].
  void copy_row(size_t row, std::span<float> out) const;

  // nullptr when it is not of that kind.
  const PackedMatrix* packed() const { return std::get_if<PackedMatrix>(&matrix_); }
  const QuantizedMatrix* quantized() const { return std::get_if<QuantizedMatrix>(&matrix_); }
  QuantizedMatrix* quantized() { return std::get_if<QuantizedMatrix>(&matrix_); }

 private:
  std::variant<PackedMatrix, QuantizedMatrix> matrix_;
};

// What a product with any matrix of a model works in: linear_scratch_bytes() or
// linear_quantized_scratch_bytes().
size_t multiply_scratch_bytes(
    const WeightFormat& format, size_t num_threads, size_t num_tokens, size_t num_inputs
);

// As that of two packed matrices; floats for quantized ones.
RowsForm form_between(Isa isa, const WeightMatrix& first, const WeightMatrix& next, ConstRows rows);

struct MultiplyArgs {
  ConstRows x;  // [num_tokens, weights.num_columns()]
  const WeightMatrix& weights;
  std::span<const float> bias;  // as LinearArgs
  Rows out;                     // as LinearArgs
  LinearEpilogue epilogue = LinearEpilogue::kStore;
  RowsForm x_form = RowsForm::kFloats;
  RowsForm out_form = RowsForm::kFloats;
  InputRounding rounding = {};           // as LinearQuantizedArgs
  std::span<std::byte> scratch = {};     // multiply_scratch_bytes(), aligned to 64 bytes
  PanelData next = {};                   // as LinearArgs
  const RmsNormRows* norm = nullptr;     // as LinearArgs
  std::optional<RowGroups> groups = {};  // as LinearQuantizedArgs
};

// linear() or linear_quantized().
void multiply(const Executor& executor, const MultiplyArgs& args);

}  // namespace millrace
