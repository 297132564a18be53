#include "kernels/isa.h"

#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace millrace {
namespace {

constexpr std::array kLeastFirst = {
    Isa::kReference,
    Isa::kAmxReference,
    Isa::kAvx2,
    Isa::kAvx512,
    Isa::kAvx512Vnni,
    Isa::kAvx512Dot,
    Isa::kAmx};

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

bool has_avx512_vnni() {
  return has_avx512() && __builtin_cpu_supports("avx512vnni");
}

bool has_avx512_dot() {
  return has_avx512_vnni() && has_avx512_bf16();
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

// By the first four letters of its name, which differ.
bool is_made_by(unsigned letters) {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(0, &eax, &ebx, &ecx, &edx) != 0 && ebx == letters;
}
bool is_amd() {
  return is_made_by(signature_AMD_ebx);
}

// EAX of leaf 1.
unsigned signature() {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 ? eax : 0;
}

// Bits 8 to 11 of the signature, and if they are all set bits 20 to 27 on top.
unsigned family() {
  constexpr unsigned kExtended = 0xF;
  const unsigned base = (signature() >> 8) & 0xF;
  return base == kExtended ? base + ((signature() >> 20) & 0xFF) : base;
}

// Of AMD's: bits 4 to 7 of the signature, bits 16 to 19 on top.
unsigned model() {
  return ((signature() >> 4) & 0xF) | ((signature() >> 12) & 0xF0);
}

// And Zen+. Zen 2 is of the same family.
bool is_zen1() {
  constexpr unsigned kZen1And2 = 23;
  constexpr unsigned kFirstZen2 = 0x30;
  return is_amd() && family() == kZen1And2 && model() < kFirstZen2;
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

// The one with the most instructions that are not emulated.
Isa find_most() {
  if (has_amx()) return Isa::kAmx;
  if (has_avx512_dot()) return Isa::kAvx512Dot;
  if (has_avx512_vnni()) return Isa::kAvx512Vnni;
  if (has_avx512()) return Isa::kAvx512;
  return has_avx2() ? Isa::kAvx2 : Isa::kAmxReference;
}
Isa most() {
  static const Isa isa = find_most();
  return isa;
}

// Sapphire Rapids and later, where the system or a hypervisor hides their tiles.
bool is_intel_without_tiles() {
  return prefers_floats() && most() == Isa::kAvx512Dot;
}

bool is_amx_emulated() {
  return most() == Isa::kAvx512Dot && emulate_amx != nullptr && emulate_amx();
}

size_t find_hint_bytes() {
  constexpr size_t kZen5HintBytes = 12 << 10;
  constexpr size_t kZen3HintBytes = 1536;
  constexpr size_t kZen1HintBytes = 768;
  constexpr size_t kIntelHintBytes = 4 << 10;
  if (is_zen5()) return kZen5HintBytes;
  if (is_zen3()) return kZen3HintBytes;
  if (is_zen1()) return kZen1HintBytes;
  return is_intel_without_tiles() ? kIntelHintBytes : 0;
}

// How many of kLeastFirst there are up to `isa`.
size_t count_up_to(Isa isa) {
  return static_cast<size_t>(std::ranges::find(kLeastFirst, isa) - kLeastFirst.begin()) + 1;
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
    case Isa::kAvx512Vnni:
      return "avx512-vnni";
    case Isa::kAvx512Dot:
      return "avx512-dot";
    case Isa::kAmx:
      return "amx";
  }
  return "unknown";
}

std::span<const Isa> supported_isas() {
  static const size_t count = count_up_to(is_amx_emulated() ? Isa::kAmx : most());
  return std::span(kLeastFirst).first(count);
}

Isa best_isa() {
  static const Isa isa = is_intel_without_tiles() ? Isa::kAvx512Vnni : most();
  return isa;
}

bool prefers_floats() {
  static const bool is_intel = is_made_by(signature_INTEL_ebx);
  return is_intel;
}

bool prefers_whole_bfloat16() {
  static const bool is_held_up = is_zen1();
  return is_held_up;
}

size_t best_hint_bytes() {
  static const size_t bytes = find_hint_bytes();
  return bytes;
}

}  // namespace millrace
