// exp and silu on sixteen lanes. See lanes.h for the rules.
#pragma once

#include "kernels/exp_kernel.h"
#include "kernels/lanes.h"

namespace millrace {
namespace {

// The same as exp_lanes for x <= kExpInputMax.
template <class Lanes>
[[gnu::always_inline]] inline Lanes exp_of_moderate(Lanes x) {
  // The operand that may be NaN comes second: it then passes through.
  const Lanes clamped = Lanes::max(Lanes::broadcast(kExpInputMin), x);
  const Lanes shift = Lanes::broadcast(kRoundingShift);
  const Lanes shifted = Lanes::fma(clamped, Lanes::broadcast(kLog2E), shift);
  const Lanes minus_n = Lanes::sub(shift, shifted);
  const Lanes upper = Lanes::fma(minus_n, Lanes::broadcast(kLn2Upper), clamped);
  const Lanes r = Lanes::fma(minus_n, Lanes::broadcast(kLn2Lower), upper);

  Lanes p = Lanes::broadcast(kExpCoefficients[4]);
  p = Lanes::fma(p, r, Lanes::broadcast(kExpCoefficients[3]));
  p = Lanes::fma(p, r, Lanes::broadcast(kExpCoefficients[2]));
  p = Lanes::fma(p, r, Lanes::broadcast(kExpCoefficients[1]));
  p = Lanes::fma(p, r, Lanes::broadcast(kExpCoefficients[0]));
  const Lanes exp_r = Lanes::add(Lanes::fma(Lanes::mul(r, r), p, r), Lanes::broadcast(1.0F));
  return Lanes::scale_by_power_of_two(exp_r, shifted);
}

template <class Lanes>
[[gnu::always_inline]] inline Lanes exp_lanes(Lanes x) {
  return exp_of_moderate(Lanes::min(Lanes::broadcast(kExpInputMax), x));
}

// The same as coarse_exp_reference for x <= kExpInputMax.
template <class Lanes>
[[gnu::always_inline]] inline Lanes coarse_exp_of_moderate(Lanes x) {
  const Lanes clamped = Lanes::max(Lanes::broadcast(kExpInputMin), x);
  const Lanes log2_e = Lanes::broadcast(kLog2E);
  const Lanes shift = Lanes::broadcast(kRoundingShift);
  const Lanes shifted = Lanes::fma(clamped, log2_e, shift);
  const Lanes r = Lanes::fms(clamped, log2_e, Lanes::sub(shifted, shift));

  Lanes p = Lanes::broadcast(kCoarseExp2Coefficients[2]);
  p = Lanes::fma(p, r, Lanes::broadcast(kCoarseExp2Coefficients[1]));
  p = Lanes::fma(p, r, Lanes::broadcast(kCoarseExp2Coefficients[0]));
  p = Lanes::fma(p, r, Lanes::broadcast(1.0F));
  return Lanes::scale_by_power_of_two(p, shifted);
}

template <class Lanes>
[[gnu::always_inline]] inline Lanes silu_lanes(Lanes x) {
  const Lanes exp_minus_x = exp_lanes(Lanes::sub(Lanes::zero(), x));
  return Lanes::div(x, Lanes::add(Lanes::broadcast(1.0F), exp_minus_x));
}

template <class Lanes>
void exp_array(float* values, size_t size) {
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    Lanes::store(values + i, exp_lanes(Lanes::load(values + i)));
  }
  if (i < size) {
    const size_t rest = size - i;
    Lanes::store_first(values + i, exp_lanes(Lanes::load_first(values + i, rest)), rest);
  }
}

}  // namespace
}  // namespace millrace
