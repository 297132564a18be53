// Data for the tests of CUDA kernels: seeded, and the same everywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/kernels/device_array.h"
#include "cuda/kernels/operand_tiles.h"
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

// Row-major matrices to and from tiles (operand_tiles.h). Padding is NaN in tiles of tokens, which
// nobody shall read.
inline std::vector<uint16_t> token_tiles(const std::vector<uint16_t>& rows, size_t width) {
  const size_t num_tokens = rows.size() / width;
  std::vector<uint16_t> tiles(num_token_elements(num_tokens, width), 0xFFFF);
  for (size_t i = 0; i < rows.size(); ++i) {
    tiles[token_element(i / width, i % width, width, num_tokens)] = rows[i];
  }
  return tiles;
}
inline std::vector<uint16_t> packed_weights(const std::vector<uint16_t>& rows, size_t num_inputs) {
  std::vector<uint16_t> packed(num_weight_elements(rows.size() / num_inputs, num_inputs), 0);
  for (size_t i = 0; i < rows.size(); ++i) {
    packed[weight_element(i / num_inputs, i % num_inputs, num_inputs)] = rows[i];
  }
  return packed;
}
inline std::vector<uint16_t> token_rows(
    const std::vector<uint16_t>& tiles, size_t num_tokens, size_t width
) {
  std::vector<uint16_t> rows(num_tokens * width);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = tiles[token_element(i / width, i % width, width, num_tokens)];
  }
  return rows;
}

}  // namespace millrace::cuda
