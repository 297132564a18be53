// Data for the operators' tests and benchmarks: seeded, and the same everywhere.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/rng.h"
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

}  // namespace millrace
