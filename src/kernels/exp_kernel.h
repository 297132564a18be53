// The constants of exp and its versions, seen by exp.cpp and by the instruction sets' files.
#pragma once

#include <cstddef>

namespace millrace {

constexpr float kExpInputMin = -104.0F;  // exp of it rounds to 0
constexpr float kExpInputMax = 89.0F;    // exp of it rounds to infinity
constexpr float kLog2E = 0x1.715476p+0F;
constexpr float kLn2Upper = 0x1.62e43p-1F;  // ln 2 to float, and what that lacks
constexpr float kLn2Lower = -0x1.05c61p-29F;

// (exp(r) - 1 - r) / r^2, lowest power first.
constexpr float kExpCoefficients[] = {
    0x1.fffffcp-2F,
    0x1.555492p-3F,
    0x1.5558f2p-5F,
    0x1.123a2p-7F,
    0x1.6a23dp-10F,
};

// (2^r - 1) / r, lowest power first: for |r| <= 1/2, 1 + r * that is off by 1.02e-4 of 2^r at most.
constexpr float kCoarseExp2Coefficients[] = {
    0x1.62f5fap-1F,
    0x1.f00c4cp-3F,
    0x1.c2a218p-5F,
};

void exp_in_place_reference(float* values, size_t size);
void exp_in_place_avx2(float* values, size_t size);
void exp_in_place_avx512(float* values, size_t size);

}  // namespace millrace
