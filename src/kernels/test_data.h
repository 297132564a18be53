// Data for the operators' tests and benchmarks: seeded, and the same everywhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "kernels/packed_matrix.h"
#include "kernels/rows.h"

namespace millrace {

// Uniform in [-1, 1).
inline std::vector<float> random_floats(size_t size, uint64_t seed) {
  std::vector<float> values(size);
  for (size_t i = 0; i < size; ++i) {
    values[i] = static_cast<float>(2.0 * random_unit(seed, i) - 1.0);
  }
  return values;
}

// The bits of floats, so that a comparison tells -0 from +0 and NaN equals itself.
inline std::vector<uint32_t> bits_of(std::span<const float> values) {
  std::vector<uint32_t> bits(values.size());
  if (!bits.empty()) std::memcpy(bits.data(), values.data(), values.size_bytes());
  return bits;
}

inline Rows rows_of(std::vector<float>& values, size_t num_columns) {
  return {values.data(), values.size() / num_columns, num_columns, num_columns};
}

// `rows`: [num_rows, num_columns].
inline PackedMatrix packed(
    DType dtype,
    std::span<const float> rows,
    size_t num_columns,
    BFloat16Panels panels = best_bfloat16_panels()
) {
  const size_t num_rows = rows.size() / num_columns;
  PackedMatrix matrix = *PackedMatrix::allocate(dtype, num_rows, num_columns, panels);
  for (size_t panel = 0; panel < matrix.num_panels(); ++panel) {
    const size_t begin = panel * 16;
    const size_t count = std::min<size_t>(16, num_rows - begin);
    matrix.pack_panel(panel, rows.subspan(begin * num_columns, count * num_columns));
  }
  CHECK(matrix.holds_all_weights(), "weights with few exceptions");
  return matrix;
}

}  // namespace millrace
