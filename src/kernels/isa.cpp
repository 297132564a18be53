#include "kernels/isa.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace millrace {
namespace {

constexpr std::array kSlowestFirst = {
    Isa::kReference, Isa::kAmxReference, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Dot, Isa::kAmx};

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

// Linux saves the 8 KiB of tiles for processes that asked for it, and for their threads and
// children. The answer is no where the system is older or forbids it.
bool may_use_tiles() {
  constexpr long kTileData = 18;  // of the processor's states
  return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, kTileData) == 0;
}

// Of leaf 7 bits 22 to 25 of EDX: products of bfloat16, AVX-512 FP16, tiles, products of 8-bit
// integers; bit 1 of ECX: AVX-512 VBMI. Every processor with tiles has all of them.
bool has_amx() {
  constexpr unsigned kBits = (1U << 22) | (1U << 23) | (1U << 24) | (1U << 25);
  constexpr unsigned kVbmi = 1U << 1;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return has_avx512_dot() && __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 &&
         (edx & kBits) == kBits && (ecx & kVbmi) != 0 && may_use_tiles();
}

bool is_amd() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(0, &eax, &ebx, &ecx, &edx) != 0 && ebx == signature_AMD_ebx &&
         ecx == signature_AMD_ecx && edx == signature_AMD_edx;
}

// Bits 8 to 11 of EAX of leaf 1, and if they are all set bits 20 to 27 on top.
unsigned family() {
  constexpr unsigned kExtended = 0xF;
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return 0;
  const unsigned base = (eax >> 8) & 0xF;
  return base == kExtended ? base + ((eax >> 20) & 0xFF) : base;
}

bool is_zen5() {
  constexpr unsigned kZen5 = 26;
  return is_amd() && family() == kZen5;
}

// Zen 4 is of the same family.
bool is_zen3() {
  constexpr unsigned kZen3And4 = 25;
  return is_amd() && family() == kZen3And4 && !has_avx512();
}

Isa fastest() {
  if (has_amx()) return Isa::kAmx;
  if (has_avx512_dot()) return Isa::kAvx512Dot;
  if (has_avx512()) return Isa::kAvx512;
  return has_avx2() ? Isa::kAvx2 : Isa::kAmxReference;
}

bool is_amx_emulated() {
  return best_isa() == Isa::kAvx512Dot && emulate_amx != nullptr && emulate_amx();
}

// How many of kSlowestFirst there are up to `isa`.
size_t count_up_to(Isa isa) {
  return static_cast<size_t>(std::ranges::find(kSlowestFirst, isa) - kSlowestFirst.begin()) + 1;
}

}  // namespace

std::string_view name_of(Isa isa) {
  switch (isa) {
    case Isa::kReference:
      return "reference";
    case Isa::kAmxReference:
      return "amx-reference";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Dot:
      return "avx512-dot";
    case Isa::kAmx:
      return "amx";
  }
  return "unknown";
}

std::span<const Isa> supported_isas() {
  static const size_t count = count_up_to(is_amx_emulated() ? Isa::kAmx : best_isa());
  return std::span(kSlowestFirst).first(count);
}

Isa best_isa() {
  static const Isa isa = fastest();
  return isa;
}

size_t best_hint_bytes() {
  constexpr size_t kZen5HintBytes = 12 << 10;
  constexpr size_t kZen3HintBytes = 1536;
  static const size_t bytes = is_zen5() ? kZen5HintBytes : is_zen3() ? kZen3HintBytes : 0;
  return bytes;
}

}  // namespace millrace
