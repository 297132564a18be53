// What kernels do with bits and numbers, on the processor: the same names as
// native/device/cuda_numbers.h, where they are documented.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace millrace::cuda {

inline double double_from_words(uint32_t lower, uint32_t upper) {
  return std::bit_cast<double>(static_cast<uint64_t>(upper) << 32 | lower);
}

inline float float_from_bits(uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline uint32_t bits_from_float(float value) {
  return std::bit_cast<uint32_t>(value);
}

inline float larger_number(float a, float b) {
  return std::fmax(a, b);
}
inline float smaller_number(float a, float b) {
  return std::fmin(a, b);
}

inline uint32_t bfloat16_pair(float lower, float upper) {
  const auto rounded = [](float value) {
    const uint32_t bits = bits_from_float(value);
    return value == value ? (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16 : bits >> 16 | 0x40U;
  };
  return rounded(lower) | rounded(upper) << 16;
}

inline uint32_t add_bfloat16_pairs(uint32_t a, uint32_t b) {
  const auto sum = [a, b](uint32_t shift) {
    return float_from_bits(a >> shift << 16) + float_from_bits(b >> shift << 16);
  };
  return bfloat16_pair(sum(0), sum(16));
}
inline uint32_t bytes_as_halves(uint32_t word, uint32_t which, uint32_t upper) {
  const uint32_t bytes = word >> (16 * which);
  return (bytes & 0xFFU) | (bytes & 0xFF00U) << 8 | (upper & 0xFFU) * 0x01000100U;
}
inline uint32_t byte_of(uint32_t word, uint32_t which) {
  return word >> (8 * which) & 0xFFU;
}
inline uint32_t equal_bits(uint32_t a, uint32_t b, uint32_t mask) {
  return ~(a ^ b) & mask;
}

inline float fused_multiply_add(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float approximate_reciprocal(float value) {
  return value > 0x1p126F ? 0.0F : 1.0F / value;
}
inline float square_root(float value) {
  return std::sqrt(value);
}

}  // namespace millrace::cuda
