// Data for the tests of CUDA kernels: seeded, and the same everywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/kernels/device_array.h"
#include "kernels/test_data.h"
#include "tensor/dtype.h"

namespace millrace::cuda {

inline float widened(uint16_t bits) {
  return to_float(BFloat16{bits});
}
inline uint16_t narrowed(float value) {
  return to_bfloat16(value).bits;
}

inline std::vector<uint16_t> narrowed(const std::vector<float>& values) {
  std::vector<uint16_t> result;
  for (const float value : values) result.push_back(narrowed(value));
  return result;
}
inline std::vector<float> widened(const std::vector<uint16_t>& values) {
  std::vector<float> result;
  for (const uint16_t value : values) result.push_back(widened(value));
  return result;
}

// Uniform in [-1, 1), rounded.
inline std::vector<uint16_t> random_bfloat16(size_t size, uint64_t seed) {
  return narrowed(random_floats(size, seed));
}

}  // namespace millrace::cuda
