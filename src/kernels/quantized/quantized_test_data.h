// Quantized matrices and encoded rows for tests and benchmarks.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/quantized/encode_rows.h"
#include "kernels/quantized/quantized_matrix.h"
#include "kernels/test_data.h"
#include "tensor/buffer.h"

namespace millrace {

constexpr QuantizedFormat kQuantizedFormats[] = {QuantizedFormat::kInt8, QuantizedFormat::kInt4};

// `rows`: [num_rows, num_columns].
inline QuantizedMatrix quantized(
    QuantizedFormat format, std::span<const float> rows, size_t num_columns, Isa isa = best_isa()
) {
  const size_t num_rows = rows.size() / num_columns;
  QuantizedMatrix matrix = *QuantizedMatrix::allocate(format, num_rows, num_columns);
  for (size_t panel = 0; panel < matrix.num_panels(); ++panel) {
    const size_t begin = panel * 16;
    const size_t count = std::min<size_t>(16, num_rows - begin);
    matrix.pack_panel(panel, rows.subspan(begin * num_columns, count * num_columns), isa);
  }
  return matrix;
}

// Memory for the encoded rows of a matrix.
inline Buffer encoding_scratch(size_t num_rows, size_t num_columns) {
  return *Buffer::allocate(num_rows * EncodedRows::row_bytes(num_columns));
}

}  // namespace millrace
