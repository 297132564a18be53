// The exponential function, one for every instruction set: softmax and silu are made of it. Weights
// of attention that are kept in bfloat16 have a coarse one (docs/decisions/0025).
//
// exp(x) = 2^n * exp(r) with n = round(x / ln 2), |r| <= ln(2) / 2 and a polynomial of degree 6 for
// exp(r); its coefficients minimize the relative error (3.1e-9, a twentieth of half an ulp). The
// result is within 1 ulp of the exact one, subnormal results included. exp(-inf) = 0, exp of what
// is beyond the largest float is +inf, NaN stays NaN.
#pragma once

#include <span>

#include "kernels/isa.h"

namespace millrace {

// The definition: the same operations in the same order as in the vector code.
[[nodiscard]] float exp_reference(float x);

// exp(x) to 1.04e-4 of it, a nineteenth of what rounding to bfloat16 takes: for weights that are
// rounded so. A polynomial of degree 3 for 2^r; exact at 0.
[[nodiscard]] float coarse_exp_reference(float x);

// x * sigmoid(x) = x / (1 + exp(-x)).
[[nodiscard]] float silu_reference(float x);

// values[i] = exp(values[i]).
void exp_in_place(Isa isa, std::span<float> values);

}  // namespace millrace
