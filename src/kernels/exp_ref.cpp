#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/exp.h"
#include "kernels/exp_kernel.h"
#include "kernels/lanes.h"

namespace millrace {
namespace {

float power_of_two(int32_t n) {
  return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}

}  // namespace

float exp_reference(float x) {
  if (std::isnan(x)) return x;
  const float clamped = x > kExpInputMax ? kExpInputMax : x < kExpInputMin ? kExpInputMin : x;
  const float shifted = std::fma(clamped, kLog2E, kRoundingShift);
  const float minus_n = kRoundingShift - shifted;
  const float r = std::fma(minus_n, kLn2Lower, std::fma(minus_n, kLn2Upper, clamped));

  float p = kExpCoefficients[4];
  for (int power = 3; power >= 0; --power) p = std::fma(p, r, kExpCoefficients[power]);
  const float exp_r = std::fma(r * r, p, r) + 1.0F;

  const auto n = static_cast<int32_t>(-minus_n);
  // In two factors, because 2^n itself need not be a normal float where the product is one.
  return exp_r * power_of_two(n >> 1) * power_of_two(n - (n >> 1));
}

float silu_reference(float x) {
  return x / (1.0F + exp_reference(0.0F - x));
}

void exp_in_place_reference(float* values, size_t size) {
  for (size_t i = 0; i < size; ++i) values[i] = exp_reference(values[i]);
}

}  // namespace millrace
