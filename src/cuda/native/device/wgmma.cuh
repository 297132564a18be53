// Hopper's own instructions as wide products need them (PTX ISA 8.0 and later, for sm_90a): the
// tensor cores' products by a group of four warps, copies of memory that nobody waits for, and the
// barriers in shared memory that count both.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "wgmma_operands.cuh"

namespace millrace::cuda {

// Barriers, copies and wgmma are there: device code for sm_90a.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MILLRACE_HAS_WGMMA 1
#else
#define MILLRACE_HAS_WGMMA 0
#endif

#if MILLRACE_HAS_WGMMA

__device__ inline uint32_t shared_address(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// A barrier in shared memory: a phase ends when as many have arrived as it was made for, and all
// bytes that were announced are there.
__device__ inline void create_barrier(uint64_t* barrier, uint32_t num_arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(num_arrivals)
               : "memory");
}
// What was created is seen by copies too. Before the block's own barrier.
__device__ inline void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
__device__ inline void arrive_and_expect(uint64_t* barrier, uint32_t num_bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier
               )),
               "r"(num_bytes)
               : "memory");
}
// Until the phase of that parity has ended.
__device__ inline void wait_for_phase(uint64_t* barrier, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory"
  );
}

// A multiple of 16 bytes from global to shared memory, counted by the barrier.
__device__ inline void copy_to_shared(
    void* shared, const void* global, uint32_t num_bytes, uint64_t* barrier
) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(shared)),
      "l"(__cvta_generic_to_global(global)),
      "r"(num_bytes),
      "r"(shared_address(barrier))
      : "memory"
  );
}

// How many registers each thread of a group of four warps has from here on: fewer than it was
// launched with, or more, of what others gave.
template <uint32_t kCount>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <uint32_t kCount>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

// A matrix of core matrices in shared memory, without swizzling ("Matrix descriptor"): bytes from
// one core to the next along K, and from 8 columns to the next 8.
__device__ inline uint64_t matrix_descriptor(
    const void* shared, uint32_t bytes_along_k, uint32_t bytes_along_n
) {
  return static_cast<uint64_t>((shared_address(shared) & 0x3FFFFU) >> 4) |
         static_cast<uint64_t>(bytes_along_k >> 4) << 16 |
         static_cast<uint64_t>(bytes_along_n >> 4) << 32;
}

// Before the first product of a group, and after registers of one were changed.
__device__ inline void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ inline void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until all but the last kCount groups are done.
template <uint32_t kCount>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kCount) : "memory");
}
// What was multiplied into is not read before here.
template <uint32_t kTiles>
__device__ inline void hold(float (&tiles)[kTiles][4]) {
#pragma unroll
  for (uint32_t i = 0; i < kTiles * 4; ++i) asm volatile("" : "+f"(tiles[i / 4][i % 4])::"memory");
}
template <uint32_t kTiles>
__device__ inline void wait_for_sums(float (&tiles)[kTiles][4]) {
  wait_for_products<0>();
  hold(tiles);
}

// sums += a * b: 64 rows, `N` columns, 16 products each; for every eight columns as
// multiply_fragments() has them, a warp having 16 of the rows.
__device__ inline void multiply_wide(float (&tiles)[8][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(MILLRACE_WGMMA(64) MILLRACE_SUMS_32 ", {%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
               : MILLRACE_TILES8("+f", tiles, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void multiply_wide(float (&tiles)[16][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(MILLRACE_WGMMA(128) MILLRACE_SUMS_64 ", {%64, %65, %66, %67}, %68, 1, 1, 1, 0;"
               : MILLRACE_TILES16("+f", tiles, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void multiply_wide(float (&tiles)[24][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(MILLRACE_WGMMA(192) MILLRACE_SUMS_96 ", {%96, %97, %98, %99}, %100, 1, 1, 1, 0;"
               : MILLRACE_TILES16("+f", tiles, 0), MILLRACE_TILES8("+f", tiles, 16)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void multiply_wide(float (&tiles)[32][4], const uint32_t (&a)[4], uint64_t b) {
  asm volatile(MILLRACE_WGMMA(256) MILLRACE_SUMS_128 ", {%128, %129, %130, %131}, %132, 1, 1, 1, 0;"
               : MILLRACE_TILES16("+f", tiles, 0), MILLRACE_TILES16("+f", tiles, 16)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// tiles = a * b: the first product of several, to which what was there counts for nothing.
__device__ inline void multiply_wide_first(
    float (&tiles)[8][4], const uint32_t (&a)[4], uint64_t b
) {
  asm volatile(MILLRACE_WGMMA(64) MILLRACE_SUMS_32 ", {%32, %33, %34, %35}, %36, 0, 1, 1, 0;"
               : MILLRACE_TILES8("=f", tiles, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
__device__ inline void multiply_wide_first(
    float (&tiles)[16][4], const uint32_t (&a)[4], uint64_t b
) {
  asm volatile(MILLRACE_WGMMA(128) MILLRACE_SUMS_64 ", {%64, %65, %66, %67}, %68, 0, 1, 1, 0;"
               : MILLRACE_TILES16("=f", tiles, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#endif  // MILLRACE_HAS_WGMMA

}  // namespace millrace::cuda
