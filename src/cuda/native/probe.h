// Whether a device runs what this build was compiled for.
#pragma once

#include <cuda_runtime_api.h>

namespace millrace::cuda {

// cudaErrorNoKernelImageForDevice and its like: this build has no code for the thread's device.
cudaError_t probe_kernel_image();

}  // namespace millrace::cuda
