#include "kernels/isa.h"

#include <cpuid.h>

#include <array>

namespace millrace {
namespace {

constexpr std::array kSlowestFirst = {Isa::kReference, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Dot};

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

// Bit 5 of EAX of leaf 7, subleaf 1; g++ 12's __builtin_cpu_supports knows it, clang 14's does not.
bool has_avx512_bf16() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & bit_AVX512BF16) != 0;
}

bool has_avx512_dot() {
  return has_avx512() && __builtin_cpu_supports("avx512vnni") && has_avx512_bf16();
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
    case Isa::kAvx512Dot:
      return "avx512-dot";
  }
  return "unknown";
}

std::span<const Isa> supported_isas() {
  static const size_t count = has_avx512_dot() ? 4 : has_avx512() ? 3 : has_avx2() ? 2 : 1;
  return std::span(kSlowestFirst).first(count);
}

Isa best_isa() {
  return supported_isas().back();
}

}  // namespace millrace
