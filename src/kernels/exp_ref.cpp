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

// x * 2^n, in two factors, because 2^n itself need not be a normal float where the product is one.
float scale_by_power_of_two(float x, float n) {
  const auto exponent = static_cast<int32_t>(n);
  return x * power_of_two(exponent >> 1) * power_of_two(exponent - (exponent >> 1));
}

float clamp_exponent(float x) {
  return x > kExpInputMax ? kExpInputMax : x < kExpInputMin ? kExpInputMin : x;
}

}  // namespace

float exp_reference(float x) {
  if (std::isnan(x)) return x;
  const float clamped = clamp_exponent(x);
  const float shifted = std::fma(clamped, kLog2E, kRoundingShift);
  const float minus_n = kRoundingShift - shifted;
  const float r = std::fma(minus_n, kLn2Lower, std::fma(minus_n, kLn2Upper, clamped));

  float p = kExpCoefficients[4];
  for (int power = 3; power >= 0; --power) p = std::fma(p, r, kExpCoefficients[power]);
  const float exp_r = std::fma(r * r, p, r) + 1.0F;

  return scale_by_power_of_two(exp_r, -minus_n);
}

float coarse_exp_reference(float x) {
  if (std::isnan(x)) return x;
  const float clamped = clamp_exponent(x);
  const float n = std::fma(clamped, kLog2E, kRoundingShift) - kRoundingShift;
  const float r = std::fma(clamped, kLog2E, -n);

  float p = kCoarseExp2Coefficients[2];
  for (int power = 1; power >= 0; --power) p = std::fma(p, r, kCoarseExp2Coefficients[power]);
  return scale_by_power_of_two(std::fma(p, r, 1.0F), n);
}

float silu_reference(float x) {
  return x / (1.0F + exp_reference(0.0F - x));
}

void exp_in_place_reference(float* values, size_t size) {
  for (size_t i = 0; i < size; ++i) values[i] = exp_reference(values[i]);
}

}  // namespace millrace
