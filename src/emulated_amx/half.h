// Arithmetic of AVX-512 FP16: every result is the exact one, rounded once, to the nearest.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace millrace::emulated_amx {

// a * b + c. Denormals are numbers like all others.
[[nodiscard]] Float16 multiply_add(Float16 a, Float16 b, Float16 c);

// Infinite from 65,520 on.
[[nodiscard]] Float16 half_of(int16_t value);
[[nodiscard]] Float16 half_of(uint16_t value);

}  // namespace millrace::emulated_amx
