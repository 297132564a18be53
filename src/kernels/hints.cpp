#include "kernels/hints.h"

#include <cpuid.h>

namespace millrace {
namespace {

struct Registers {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
};

// Zeros where the processor has no such leaf.
Registers cpuid(unsigned leaf) {
  Registers r;
  __get_cpuid(leaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

bool is_amd() {
  const Registers vendor = cpuid(0);
  return vendor.ebx == signature_AMD_ebx && vendor.ecx == signature_AMD_ecx &&
         vendor.edx == signature_AMD_edx;
}

// Bits 8 to 11 of leaf 1, and if they are all set bits 20 to 27 on top.
unsigned family() {
  constexpr unsigned kExtended = 0xF;
  const unsigned bits = cpuid(1).eax;
  const unsigned base = (bits >> 8) & 0xF;
  return base == kExtended ? base + ((bits >> 20) & 0xFF) : base;
}

bool is_zen5() {
  constexpr unsigned kZen5 = 26;
  return is_amd() && family() == kZen5;
}

}  // namespace

size_t best_hint_bytes() {
  constexpr size_t kZen5HintBytes = size_t{12} << 10;
  static const size_t bytes = is_zen5() ? kZen5HintBytes : 0;
  return bytes;
}

}  // namespace millrace
