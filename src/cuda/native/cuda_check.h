// What native code does with the status of a CUDA call that cannot fail for a machine's reasons.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace millrace::cuda {

// Prints "CUDA device failed: <call>: <CUDA's words> (<CUDA's name>)" to standard error and aborts,
// unless the status is cudaSuccess. Never for what a Result can say.
//
//   check_cuda(cudaEventRecord(event, stream), "cudaEventRecord");
void check_cuda(cudaError_t status, std::string_view call);

}  // namespace millrace::cuda
