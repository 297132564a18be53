#include <cuda_runtime.h>

#include "cuda/native/probe.h"

namespace millrace::cuda {
namespace {

// Compiled for the architectures of every kernel; never run.
__global__ void probe(int* value) {
  *value = 1;
}

}  // namespace

cudaError_t probe_kernel_image() {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, probe);
}

}  // namespace millrace::cuda
