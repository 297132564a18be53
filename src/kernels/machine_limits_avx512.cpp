#include <immintrin.h>

#include "kernels/machine_limits_kernel.h"

namespace millrace {
namespace {

// Lanes one by one rather than by a tree of additions: it runs once, after millions of rounds.
[[gnu::always_inline]] inline uint64_t total_of(const __m512 (&sums)[kDotSumsZmm]) {
  double total = 0.0;
#pragma GCC unroll 16
  for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); ++i) {
    float lanes[16];
    _mm512_storeu_ps(lanes, sums[i]);
    for (const float lane : lanes) total += lane;
  }
  return static_cast<uint64_t>(total);
}

}  // namespace

uint64_t sum_words_avx512(const void* data, size_t num_bytes) {
  const auto* blocks = static_cast<const __m512i*>(data);
  constexpr size_t kRegisters = 8;
  __m512i sums[kRegisters] = {};
  for (size_t i = 0; i < num_bytes / sizeof(__m512i); i += kRegisters) {
#pragma GCC unroll 8
    for (size_t k = 0; k < kRegisters; ++k) {
      sums[k] = _mm512_add_epi64(sums[k], _mm512_loadu_si512(blocks + i + k));
    }
  }
  uint64_t total = 0;
#pragma GCC unroll 16
  for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); ++i) {
    uint64_t lanes[8];
    _mm512_storeu_si512(lanes, sums[i]);
    for (const uint64_t lane : lanes) total += lane;
  }
  return total;
}

uint64_t count_vfmadd_zmm(size_t num_rounds) {
  const __m512 one = _mm512_set1_ps(1.0F);
  __m512 sums[kDotSumsZmm] = {};
  for (size_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 16
    for (size_t i = 0; i < kDotSumsZmm; ++i) {
      asm volatile("vfmadd231ps %1, %1, %0" : "+v"(sums[i]) : "v"(one));
    }
  }
  return total_of(sums);
}

// In assembly this needs no compiler flag for the instruction, only a processor that has it.
uint64_t count_vdpbf16ps_zmm(size_t num_rounds) {
  const __m512i ones = _mm512_set1_epi16(0x3F80);  // 1 in bfloat16
  __m512 sums[kDotSumsZmm] = {};
  for (size_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 16
    for (size_t i = 0; i < kDotSumsZmm; ++i) {
      asm volatile("vdpbf16ps %1, %1, %0" : "+v"(sums[i]) : "v"(ones));
    }
  }
  return total_of(sums);
}

uint64_t count_vpdpbusd_zmm(size_t num_rounds) {
  const __m512i ones = _mm512_set1_epi8(1);
  __m512i sums[kDotSumsZmm] = {};
  for (size_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 16
    for (size_t i = 0; i < kDotSumsZmm; ++i) {
      asm volatile("vpdpbusd %1, %1, %0" : "+v"(sums[i]) : "v"(ones));
    }
  }
  uint64_t total = 0;
#pragma GCC unroll 16
  for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); ++i) {
    uint32_t lanes[16];
    _mm512_storeu_si512(lanes, sums[i]);
    for (const uint32_t lane : lanes) total += lane;
  }
  return total;
}

}  // namespace millrace
