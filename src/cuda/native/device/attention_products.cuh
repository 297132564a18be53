// wgmma (PTX ISA 8.0 and later, for sm_90a) as attention needs it: scores of queries and keys that
// both lie in shared memory, and values of weights in registers. See wgmma.cuh.
#pragma once

#include "cuda/words.h"
#include "cuda_device.h"
#include "wgmma.cuh"

namespace millrace::cuda {

#if MILLRACE_HAS_WGMMA

// sums[kFirst ..] of 128 columns: a * b or, if kAdds, + a * b. Both are in shared memory, each row
// or column with its 16 elements together: matrix_descriptor().
template <uint32_t kFirst, bool kAdds, uint32_t kTiles>
__device__ void multiply_shared(float (&sums)[kTiles][4], uint64_t a, uint64_t b) {
  static_assert(kFirst + 16 <= kTiles);
  if constexpr (kAdds) {
    asm volatile(MILLRACE_WGMMA(128) MILLRACE_SUMS_64 ", %64, %65, 1, 1, 1, 0, 0;"
                 : MILLRACE_TILES16("+f", sums, kFirst)
                 : "l"(a), "l"(b));
  } else {
    asm volatile(MILLRACE_WGMMA(128) MILLRACE_SUMS_64 ", %64, %65, 0, 1, 1, 0, 0;"
                 : MILLRACE_TILES16("=f", sums, kFirst)
                 : "l"(a), "l"(b));
  }
}

// The same of 64 columns, `a` words in registers and b's rows together: its 16 rows by 64 columns
// are cores of 8 rows by 8 columns; the descriptor has bytes from 8 rows to the next 8 first.
template <bool kAdds>
__device__ void multiply_rows(float (&sums)[8][4], const float (&a)[4], uint64_t b) {
  const uint32_t words[4] = {
      bits_from_float(a[0]), bits_from_float(a[1]), bits_from_float(a[2]), bits_from_float(a[3])};
  if constexpr (kAdds) {
    asm volatile(MILLRACE_WGMMA(64) MILLRACE_SUMS_32 ", {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : MILLRACE_TILES8("+f", sums, 0)
                 : "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "l"(b));
  } else {
    asm volatile(MILLRACE_WGMMA(64) MILLRACE_SUMS_32 ", {%32, %33, %34, %35}, %36, 0, 1, 1, 1;"
                 : MILLRACE_TILES8("=f", sums, 0)
                 : "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3]), "l"(b));
  }
}

// Four cores of 8 rows by 16 bytes, one after the other at `shared`, by a warp: core i's row g has
// word i of lanes 4 g .. 4 g + 3.
__device__ inline void store_cores(void* shared, const Words4& words) {
  const uint32_t lane = threadIdx.x % kWarpThreads;
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                   shared_address(shared) + lane * 16
               ),
               "r"(words.words[0]),
               "r"(words.words[1]),
               "r"(words.words[2]),
               "r"(words.words[3])
               : "memory");
}

// As copy_words(), or sixteen bytes of zeros.
__device__ inline void copy_or_clear(void* shared, const void* from, bool is_there) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(shared)),
               "l"(__cvta_generic_to_global(from)),
               "r"(is_there ? 16 : 0)
               : "memory");
}

// Of two numbers; NaN, if either is.
__device__ inline float larger_or_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
// Whether it holds for any lane of the warp.
__device__ inline bool any_of_warp(bool holds) {
  return __any_sync(kAllLanes, holds ? 1 : 0) != 0;
}

// What the thread stored in shared memory is seen by products, of whoever waits for the thread.
__device__ inline void publish_to_products() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// Of the threads of one of two groups of four warps.
__device__ inline void sync_group(uint32_t group) {
  if (group == 0) {
    asm volatile("bar.sync 1, 128;" ::: "memory");
  } else {
    asm volatile("bar.sync 2, 128;" ::: "memory");
  }
}

#endif  // MILLRACE_HAS_WGMMA

}  // namespace millrace::cuda
