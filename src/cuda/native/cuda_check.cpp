#include "cuda/native/cuda_check.h"

#include <cstdio>
#include <cstdlib>

namespace millrace::cuda {

void check_cuda(cudaError_t status, std::string_view call) {
  if (status == cudaSuccess) [[likely]] {
    return;
  }
  std::fprintf(
      stderr,
      "CUDA device failed: %.*s: %s (%s)\n",
      static_cast<int>(call.size()),
      call.data(),
      cudaGetErrorString(status),
      cudaGetErrorName(status)
  );
  std::abort();
}

}  // namespace millrace::cuda
