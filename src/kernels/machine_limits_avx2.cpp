#include <immintrin.h>

#include "kernels/machine_limits_kernel.h"

namespace millrace {

uint64_t sum_words_avx2(const void* data, size_t num_bytes) {
  const auto* blocks = static_cast<const __m256i*>(data);
  constexpr size_t kRegisters = 8;
  __m256i sums[kRegisters] = {};
  for (size_t i = 0; i < num_bytes / sizeof(__m256i); i += kRegisters) {
#pragma GCC unroll 8
    for (size_t k = 0; k < kRegisters; ++k) {
      sums[k] = _mm256_add_epi64(sums[k], _mm256_loadu_si256(blocks + i + k));
    }
  }
  uint64_t total = 0;
#pragma GCC unroll 16
  for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); ++i) {
    uint64_t lanes[4];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), sums[i]);
    for (const uint64_t lane : lanes) total += lane;
  }
  return total;
}

uint64_t count_vfmadd_ymm(size_t num_rounds) {
  const __m256 one = _mm256_set1_ps(1.0F);
  __m256 sums[kDotSumsYmm] = {};
  for (size_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 16
    for (size_t i = 0; i < kDotSumsYmm; ++i) {
      asm volatile("vfmadd231ps %1, %1, %0" : "+x"(sums[i]) : "x"(one));
    }
  }
  double total = 0.0;
#pragma GCC unroll 16
  for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); ++i) {
    float lanes[8];
    _mm256_storeu_ps(lanes, sums[i]);
    for (const float lane : lanes) total += lane;
  }
  return static_cast<uint64_t>(total);
}

uint64_t count_vpdpbusd_ymm(size_t num_rounds) {
  const __m256i ones = _mm256_set1_epi8(1);
  __m256i sums[kDotSumsYmm] = {};
  for (size_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 16
    for (size_t i = 0; i < kDotSumsYmm; ++i) {
      // {vex}: the form of AVX_VNNI, which processors without AVX-512 have.
      asm volatile("%{vex%} vpdpbusd %1, %1, %0" : "+x"(sums[i]) : "x"(ones));
    }
  }
  uint64_t total = 0;
#pragma GCC unroll 16
  for (size_t i = 0; i < sizeof(sums) / sizeof(sums[0]); ++i) {
    uint32_t lanes[8];
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(lanes), sums[i]);
    for (const uint32_t lane : lanes) total += lane;
  }
  return total;
}

}  // namespace millrace
