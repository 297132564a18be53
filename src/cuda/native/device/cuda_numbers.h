// What kernels do with bits and numbers, on a device. emulated/device/cuda_numbers.h has the same
// names for the processor; every one but two gives the same bits in both.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace millrace::cuda {

// Of the lower and the upper half of its bits.
__device__ inline double double_from_words(uint32_t lower, uint32_t upper) {
  return __hiloint2double(static_cast<int>(upper), static_cast<int>(lower));
}

__device__ inline float float_from_bits(uint32_t bits) {
  return __uint_as_float(bits);
}
__device__ inline uint32_t bits_from_float(float value) {
  return __float_as_uint(value);
}

// Of two numbers; of a number and a NaN, the number. Of two zeros, either.
__device__ inline float larger_number(float a, float b) {
  return fmaxf(a, b);
}
__device__ inline float smaller_number(float a, float b) {
  return fminf(a, b);
}

// To bfloat16, to nearest, ties to even; the first in the lower half of the word. NaN becomes NaN,
// though not the same one in both: a device has one only.
__device__ inline uint32_t bfloat16_pair(float lower, float upper) {
  uint32_t result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(upper), "f"(lower));
  return result;
}

// The sums of two pairs of bfloat16, each rounded once.
__device__ inline uint32_t add_bfloat16_pairs(uint32_t a, uint32_t b) {
  constexpr uint32_t kOnes = 0x3F803F80;
  uint32_t result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(kOnes), "r"(b));
  return result;
}
// Bytes 0 and 1 of a word, or 2 and 3, as the lower bytes of the halves of a word; the upper ones
// are the lowest byte of `upper`.
__device__ inline uint32_t bytes_as_halves(uint32_t word, uint32_t which, uint32_t upper) {
  return __byte_perm(word, upper, which == 0 ? 0x4140 : 0x4342);
}
__device__ inline uint32_t byte_of(uint32_t word, uint32_t which) {
  return __byte_perm(word, 0, 0x4440 + which);
}
// The bits of `mask` in which a and b are equal. One operation, which compilers do not find.
__device__ inline uint32_t equal_bits(uint32_t a, uint32_t b, uint32_t mask) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0x82;" : "=r"(result) : "r"(a), "r"(b), "r"(mask));
  return result;
}

// a * b + c, rounded once.
__device__ inline float fused_multiply_add(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
// 1 / value within 2^-22 of itself, from 2^-126 to 2^126; beyond, zero. Not the same bits in both.
__device__ inline float approximate_reciprocal(float value) {
  float result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(value));
  return result;
}
// To nearest, as IEEE 754 says.
__device__ inline float square_root(float value) {
  return __fsqrt_rn(value);
}

}  // namespace millrace::cuda
