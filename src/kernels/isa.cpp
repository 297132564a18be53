#include "kernels/isa.h"

#include <cpuid.h>

#include <array>

namespace millrace {
namespace {

constexpr std::array kSlowestFirst = {Isa::kReference, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Vnni};

// Bit 29 of ECX of leaf 1; clang 14's __builtin_cpu_supports does not know the name.
bool has_f16c() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

bool has_vnni() {
  return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kReference:
      return "reference";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Vnni:
      return "avx512_vnni";
  }
  return "unknown";
}

std::span<const Isa> supported_isas() {
  const size_t count = has_vnni() ? 4 : has_avx512() ? 3 : has_avx2() ? 2 : 1;
  return std::span(kSlowestFirst).first(count);
}

Isa best_isa() {
  return supported_isas().back();
}

}  // namespace millrace
