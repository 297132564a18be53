// The arithmetic that kernels share: bfloat16, the exponential, sums over a warp and over a block.
// Device code of both builds; every operation has one result, whichever runs it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_device.h"

namespace millrace::cuda {

constexpr float kLargestFloat = 0x1.fffffep127F;
constexpr float kMinusInfinity = -__builtin_inff();

// A matrix element of a model: the upper half of a float32.
using BFloat16Bits = uint16_t;

__device__ inline float float_from_bfloat16(BFloat16Bits bits) {
  return float_from_bits(static_cast<uint32_t>(bits) << 16);
}

// Of a word of two, the first in its lower half.
__device__ inline float lower_bfloat16(uint32_t pair) {
  return float_from_bits(pair << 16);
}
__device__ inline float upper_bfloat16(uint32_t pair) {
  return float_from_bits(pair & 0xFFFF0000U);
}

// To nearest, ties to even; NaN stays NaN.
__device__ inline BFloat16Bits bfloat16_from_float(float value) {
  return static_cast<BFloat16Bits>(bfloat16_pair(value, 0.0F));
}

// Eight elements in sixteen bytes.
constexpr uint32_t kWordElements = 8;

// Elements i .. i + 7 of a row; zero beyond its end. `is_whole`: the row begins at a multiple of
// sixteen bytes and has a multiple of eight elements, as has i.
__device__ inline Words4 load_elements(
    const BFloat16Bits* row, size_t i, size_t size, bool is_whole
) {
  if (is_whole) return i < size ? load_words(row + i) : Words4{};
  Words4 result;
#pragma unroll
  for (uint32_t e = 0; e < kWordElements; ++e) {
    const uint32_t bits = i + e < size ? row[i + e] : 0U;
    result.words[e / 2] |= bits << (16 * (e % 2));
  }
  return result;
}

// Element e of two vectors of eight, the first one's below.
__device__ inline uint32_t pair_elements(const Words4& a, const Words4& b, uint32_t e) {
  const uint32_t first = a.words[e / 2];
  const uint32_t second = b.words[e / 2];
  return e % 2 == 0 ? (first & 0xFFFFU) | second << 16 : first >> 16 | (second & 0xFFFF0000U);
}

__device__ inline float larger(float a, float b) {
  return a > b ? a : b;
}
__device__ inline float smaller(float a, float b) {
  return a < b ? a : b;
}

__device__ inline size_t smaller_size(size_t a, size_t b) {
  return a < b ? a : b;
}

// The parts of kernels/exp.h: exp(x) = exp_of_rest() * 2^n, n = shifted_exponent() - kExpShift,
// whose lower bits are n's.
constexpr float kExpShift = 0x1.8p23F;
constexpr float kExpInputMin = -104.0F;
constexpr float kLog2E = 0x1.715476p+0F;
__device__ inline float shifted_exponent(float x) {
  return fused_multiply_add(x, kLog2E, kExpShift);
}
__device__ inline float exp_of_rest(float x, float minus_n) {
  const float r =
      fused_multiply_add(minus_n, -0x1.05c61p-29F, fused_multiply_add(minus_n, 0x1.62e43p-1F, x));
  float p = 0x1.6a23dp-10F;
  p = fused_multiply_add(p, r, 0x1.123a2p-7F);
  p = fused_multiply_add(p, r, 0x1.5558f2p-5F);
  p = fused_multiply_add(p, r, 0x1.555492p-3F);
  p = fused_multiply_add(p, r, 0x1.fffffcp-2F);
  return fused_multiply_add(r * r, p, r) + 1.0F;
}

// exp of kernels/exp.h, operation by operation: the same bits.
__device__ inline float exponential(float x) {
  if (!(x == x)) return x;
  const float clamped = x > 89.0F ? 89.0F : x < kExpInputMin ? kExpInputMin : x;
  const float minus_n = kExpShift - shifted_exponent(clamped);
  const float exp_r = exp_of_rest(clamped, minus_n);
  const int32_t n = static_cast<int32_t>(-minus_n);
  const int32_t first = n >> 1;
  const float power = float_from_bits(static_cast<uint32_t>(first + 127) << 23);
  return exp_r * power * float_from_bits(static_cast<uint32_t>(n - first + 127) << 23);
}

// The same bits in fewer operations. REQUIRES: x <= 0.
__device__ inline float exponential_to_one(float x) {
  constexpr float kShift = kExpShift + 64.0F;  // for n + 64, rounded as for n
  const float clamped = larger_number(x, kExpInputMin);
  const float shifted = fused_multiply_add(clamped, kLog2E, kShift);
  const float exp_r = exp_of_rest(clamped, kShift - shifted);
  // Exactly exp_r * 2^(n + 64), which is no denormal: rounded once, like the result there.
  const uint32_t scaled = bits_from_float(exp_r) + (bits_from_float(shifted) << 23);
  return float_from_bits(scaled) * 0x1p-64F;
}

// 1 / sqrt(mean(x^2) + eps), of the sum of `count` squares.
__device__ inline float inverse_rms(float sum, size_t count, float eps) {
  return 1.0F / square_root(sum / static_cast<float>(count) + eps);
}

// x / (1 + exponential(-x)), the same bits without a branch: a prompt's kernels have up to 64 for
// each thread. Exponential and sum are quartered, so that nothing is too large. The quotient is
// corrected twice (Markstein 1990) but where the sum is exactly 1 or 2, or too large for a float:
// there it is right, and x may be too large or too small to correct it by.
__device__ inline float silu(float x) {
  // Below exp(-30) the sum is the same.
  const float minus_x = smaller_number(larger_number(-x, -30.0F), 89.0F);
  const float shifted = shifted_exponent(minus_x);
  const float exp_r = exp_of_rest(minus_x, kExpShift - shifted);
  const uint32_t quarter = bits_from_float(exp_r) + (bits_from_float(shifted) << 23) - (2U << 23);
  const float divisor = 0.25F + float_from_bits(quarter);
  const float guess = approximate_reciprocal(divisor);
  const float reciprocal =
      fused_multiply_add(fused_multiply_add(-divisor, guess, 1.0F), guess, guess);
  const float dividend = x * 0.25F;
  const float quotient = x * (reciprocal * 0.25F);
  const auto corrected = [&](float value) {
    return fused_multiply_add(fused_multiply_add(-divisor, value, dividend), reciprocal, value);
  };
  const bool is_right = divisor == 0.25F || divisor == 0.5F || divisor >= 0x1p126F;
  return is_right ? quotient : corrected(corrected(quotient));
}

__device__ inline uint32_t lane_index() {
  return threadIdx.x % kWarpThreads;
}
__device__ inline uint32_t warp_index() {
  return threadIdx.x / kWarpThreads;
}
__device__ inline uint32_t num_warps() {
  return blockDim.x / kWarpThreads;
}

// In halves: lane i and i + 16, then 8, 4, 2, 1. Every lane gets the result.
__device__ inline float sum_over_warp(float value) {
  for (uint32_t mask = kWarpThreads / 2; mask > 0; mask /= 2) value += shuffle_xor(value, mask);
  return value;
}
__device__ inline float largest_of_warp(float value) {
  for (uint32_t mask = kWarpThreads / 2; mask > 0; mask /= 2) {
    value = larger(value, shuffle_xor(value, mask));
  }
  return value;
}

// Sums of the warps, added in ascending order. Every thread gets the result.
// `scratch`: [num_warps] in shared memory, free again after the block's next barrier.
__device__ inline float sum_over_block(float value, float* scratch) {
  const float of_warp = sum_over_warp(value);
  if (lane_index() == 0) scratch[warp_index()] = of_warp;
  sync_block();
  float sum = scratch[0];
  for (uint32_t warp = 1; warp < num_warps(); ++warp) sum += scratch[warp];
  return sum;
}

}  // namespace millrace::cuda
