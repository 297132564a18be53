#include <immintrin.h>

#include "kernels/machine_limits_kernel.h"

namespace millrace {

uint64_t sum_words_reference(const void* data, size_t num_bytes) {
  const auto* words = static_cast<const uint64_t*>(data);
  uint64_t sums[8] = {};  // so that the loop waits for memory and not for an addition
  for (size_t i = 0; i < num_bytes / sizeof(uint64_t); i += 8) {
    for (size_t k = 0; k < 8; ++k) sums[k] += words[i + k];
  }
  uint64_t total = 0;
  for (const uint64_t sum : sums) total += sum;
  return total;
}

// Written in assembly, here and for the wider registers, because a compiler that sees what is
// computed would not compute it.
uint64_t count_mulps_addps(size_t num_rounds) {
  const __m128 one = _mm_set1_ps(1.0F);
  __m128 sums[kDotSumsYmm] = {};
  for (size_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 16
    for (size_t i = 0; i < kDotSumsYmm; ++i) {
      asm volatile("movaps %1, %%xmm15\n\tmulps %1, %%xmm15\n\taddps %%xmm15, %0"
                   : "+x"(sums[i])
                   : "x"(one)
                   : "xmm15");
    }
  }
  double total = 0.0;
#pragma GCC unroll 16
  for (size_t i = 0; i < kDotSumsYmm; ++i) {
    float lanes[4];
    _mm_storeu_ps(lanes, sums[i]);
    for (const float lane : lanes) total += lane;
  }
  return static_cast<uint64_t>(total);
}

}  // namespace millrace
