// Quantized matrices and encoded rows for tests and benchmarks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "kernels/quantized/encode_rows.h"
#include "kernels/quantized/quantization.h"
#include "kernels/quantized/quantized_matrix.h"
#include "kernels/test_data.h"
#include "tensor/buffer.h"

namespace millrace {

constexpr QuantizedFormat kQuantizedFormats[] = {QuantizedFormat::kInt8, QuantizedFormat::kInt4};
constexpr Quantization kQuantizations[] = {
    QuantizedFormat::kInt8, Quantization::w8a8(), QuantizedFormat::kInt4};

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

inline std::vector<std::byte> bytes_of(const QuantizedMatrix& matrix) {
  std::vector<std::byte> bytes(matrix.num_bytes());
  std::memcpy(bytes.data(), matrix.data(), bytes.size());
  return bytes;
}

// R, upper triangular, with H = R R^T: element by element from the last column on, as it follows
// from the definition. `h`: [size, size], positive definite; the result the same.
inline std::vector<double> upper_factor(const std::vector<double>& h, size_t size) {
  std::vector<double> r(size * size);
  for (size_t c = size; c-- > 0;) {
    for (size_t i = c + 1; i-- > 0;) {
      double rest = h[i * size + c];
      for (size_t k = c + 1; k < size; ++k) rest -= r[i * size + k] * r[c * size + k];
      r[i * size + c] = i == c ? std::sqrt(rest) : rest / r[c * size + c];
    }
  }
  return r;
}

}  // namespace millrace
