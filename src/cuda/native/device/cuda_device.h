// What kernels are written with, on a device. emulated/device/cuda_device.h has the same names for
// the processor; the build's include path chooses. Compiled by nvcc only, with --fmad=false: what
// is fused is written so (fused_multiply_add), and every operation but multiply_fragments() gives
// the same bits in both.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "cuda/launch_shape.h"
#include "cuda/stream.h"
#include "cuda/words.h"
#include "cuda_numbers.h"

namespace millrace::cuda {

// What fits without asking.
constexpr size_t kSharedBytesAlways = size_t{48} * 1024;

inline void check_launched(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "CUDA device failed: launch of a kernel: %s\n", cudaGetErrorString(error));
  std::abort();
}

// Puts kernel(arguments...) into the stream. The arguments are copied now.
template <class... Parameters, class... Arguments>
void launch(
    StreamHandle stream,
    const LaunchShape& shape,
    void (*kernel)(Parameters...),
    const Arguments&... arguments
) {
  check_launch_shape(shape);
  if (shape.num_shared_bytes > kSharedBytesAlways) {
    check_launched(cudaFuncSetAttribute(
        reinterpret_cast<const void*>(kernel),
        cudaFuncAttributeMaxDynamicSharedMemorySize,
        static_cast<int>(shape.num_shared_bytes)
    ));
  }
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = {shape.grid.x, shape.grid.y, shape.grid.z};
  config.blockDim = {shape.block.x, shape.block.y, shape.block.z};
  config.dynamicSmemBytes = shape.num_shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream.native);
  config.attrs = &overlap;
  config.numAttrs = shape.overlaps_previous ? 1 : 0;
  check_launched(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

// Elements [offset_bytes, + count * sizeof(T)) of the block's dynamic shared memory, which begins
// at a multiple of 16 bytes. REQUIRES: they lie within LaunchShape::num_shared_bytes.
template <class T>
__device__ T* dynamic_shared(size_t offset_bytes, size_t /*count*/) {
  extern __shared__ __align__(16) unsigned char memory[];
  return reinterpret_cast<T*>(memory + offset_bytes);
}

// Programmatic dependent launch (LaunchShape::overlaps_previous). The first waits until the kernel
// before has ended and its results can be seen; the second says that the next one may be started,
// as far as this thread is concerned. Nothing below compute capability 9.0, where kernels of a
// stream do not overlap.
__device__ inline void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ inline void allow_next_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// REQUIRES, of all functions down to multiply_fragments: every thread of the block, or of the warp,
// calls the same one at the same place of the source; warps have 32 threads.
__device__ inline void sync_block() {
  __syncthreads();
}
__device__ inline void sync_warp() {
  __syncwarp();
}

constexpr uint32_t kAllLanes = 0xFFFFFFFF;

// The value of that lane of the warp. T has 32 bits.
template <class T>
__device__ T shuffle(T value, uint32_t source_lane) {
  static_assert(sizeof(T) == sizeof(uint32_t));
  return __shfl_sync(kAllLanes, value, static_cast<int>(source_lane));
}
// The value of the lane whose index differs in the bits of `mask`.
template <class T>
__device__ T shuffle_xor(T value, uint32_t mask) {
  static_assert(sizeof(T) == sizeof(uint32_t));
  return __shfl_xor_sync(kAllLanes, value, static_cast<int>(mask));
}

// sums += a * b for a tile of 16 rows, 8 columns and 16 products of bfloat16 each, spread over the
// lanes of the warp (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"). With
// g = lane / 4 and t = lane % 4, two elements a word, the first in its lower half:
//
//   a[0], a[1], a[2], a[3]   rows g, g + 8, g, g + 8 at k = 2t, 2t, 2t + 8, 2t + 8 and k + 1
//   b[0], b[1]               column g at k = 2t, 2t + 8 and k + 1
//   sums[0 .. 3]             row g, columns 2t and 2t + 1; row g + 8, columns 2t and 2t + 1
__device__ inline void multiply_fragments(
    float (&sums)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]
) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Sixteen bytes from and to an address that is a multiple of 16.
__device__ inline Words4 load_words(const void* from) {
  const uint4 value = *static_cast<const uint4*>(from);
  return {{value.x, value.y, value.z, value.w}};
}
__device__ inline void store_words(void* to, const Words4& value) {
  const uint32_t(&words)[4] = value.words;
  *static_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

// Four bytes from and to an address that is a multiple of 4.
__device__ inline uint32_t load_word(const void* from) {
  return *static_cast<const uint32_t*>(from);
}
__device__ inline void store_word(void* to, uint32_t value) {
  *static_cast<uint32_t*>(to) = value;
}

// Sixteen bytes to shared memory, as one of the thread's copies under way; the second is for memory
// that no kernel writes and that is read once: a model's weights, which are larger than the caches.
// Copies up to end_copies() are a set. wait_for_copies() waits until at most that many of the
// thread's last sets are under way; only the thread that copied may then read what came.
__device__ inline void copy_words(void* shared, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))
               ),
               "l"(__cvta_generic_to_global(from))
               : "memory");
}
__device__ inline void copy_streaming(void* shared, const void* from) {
  asm volatile(
      "{\n"
      ".reg .b64 policy;\n"
      "createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
      "cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, policy;\n"
      "}" ::"r"(static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
      "l"(__cvta_generic_to_global(from))
      : "memory"
  );
}
// The same of four bytes, which several threads may want.
__device__ inline void copy_word(void* shared, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared))
               ),
               "l"(__cvta_generic_to_global(from))
               : "memory");
}
__device__ inline void end_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
template <uint32_t kSetsMax>
__device__ void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kSetsMax) : "memory");
}

// The line of 128 bytes around an address, to the cache that all multiprocessors share.
__device__ inline void prefetch(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(from)));
}

// Where something lies in shared memory, for loads whose address is one operation: compilers add
// what they know of an address last, and once more for each load.
using SharedAddress = uint32_t;
__device__ inline SharedAddress address_of_shared(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}
// Of memory that nobody changes after the block's barrier before.
__device__ inline uint32_t load_constant_word(SharedAddress from) {
  uint32_t result;
  asm("ld.shared.u32 %0, [%1];" : "=r"(result) : "r"(from));
  return result;
}

// *to += value, as one step that no other thread of the block comes between. Integers: the sum
// does not depend on who comes first.
__device__ inline void add_to_shared(uint32_t* to, uint32_t value) {
  atomicAdd(to, value);
}
__device__ inline void add_to_shared(uint64_t* to, uint64_t value) {
  static_assert(sizeof(uint64_t) == sizeof(unsigned long long));
  atomicAdd(reinterpret_cast<unsigned long long*>(to), static_cast<unsigned long long>(value));
}

// Whether the block is the last of `num_blocks` that come here; then the counter, in device memory
// and zero at first, is zero again. Called by one thread of each: what the blocks wrote before a
// barrier before it, the last block's threads see after a barrier behind it.
__device__ inline bool is_last_block(uint32_t* counter, uint32_t num_blocks) {
  uint32_t num_before = 0;
  asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
               : "=r"(num_before)
               : "l"(__cvta_generic_to_global(counter)), "r"(num_blocks - 1)
               : "memory");
  return num_before == num_blocks - 1;
}

}  // namespace millrace::cuda
