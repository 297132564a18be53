// Which device there is, and if none, why.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <array>

#include "cuda/native/cuda_check.h"
#include "cuda/native/probe.h"
#include "cuda/runtime.h"

namespace millrace::cuda {
namespace {

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

Error no_device(std::string_view reason) {
  return not_found(fmt::format("no CUDA device: {}", reason));
}

// Why there are no devices at all. Without a driver the runtime says that it is too old.
Error no_devices(cudaError_t status) {
  int driver_version = 0;
  if (cudaDriverGetVersion(&driver_version) != cudaSuccess) driver_version = 0;
  if (driver_version == 0) {
    return no_device("no NVIDIA driver is installed (libcuda.so.1 cannot be loaded)");
  }
  if (status == cudaErrorInsufficientDriver) {
    return no_device(fmt::format(
        "the NVIDIA driver knows CUDA {}, and this build needs {}",
        version_text(driver_version),
        version_text(CUDART_VERSION)
    ));
  }
  if (status == cudaErrorNoDevice || status == cudaSuccess) {
    return no_device("the NVIDIA driver lists none (or CUDA_VISIBLE_DEVICES hides them)");
  }
  return no_device(cudaGetErrorString(status));
}

int attribute(cudaDeviceAttr name, int32_t index) {
  int value = 0;
  check_cuda(cudaDeviceGetAttribute(&value, name, index), "cudaDeviceGetAttribute");
  return value;
}

DeviceInfo describe_device(int32_t index) {
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  DeviceInfo info{
      .index = index,
      .name = properties.name,
      .compute_capability = 10 * properties.major + properties.minor,
      .num_multiprocessors = properties.multiProcessorCount,
      .num_l2_bytes = properties.l2CacheSize,
      .num_shared_bytes_per_block_max = attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, index),
      .num_shared_bytes_per_multiprocessor =
          attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor, index),
      .num_threads_per_multiprocessor = properties.maxThreadsPerMultiProcessor,
      .runtime_version = CUDART_VERSION,
  };
  check_cuda(cudaDriverGetVersion(&info.driver_version), "cudaDriverGetVersion");
  return info;
}

}  // namespace

std::string describe_build() {
  return fmt::format("for {}, CUDA {}", MILLRACE_CUDA_ARCHITECTURES, version_text(CUDART_VERSION));
}

Result<DeviceInfo> find_device(int32_t index) {
  int num_devices = 0;
  const cudaError_t counted = cudaGetDeviceCount(&num_devices);
  if (counted != cudaSuccess || num_devices == 0) return no_devices(counted);
  if (index < 0 || index >= num_devices) {
    return no_device(fmt::format("there is no device {}, only 0 to {}", index, num_devices - 1));
  }
  // The first call that takes hold of the device: it may be in exclusive use, or broken.
  int before = 0;
  check_cuda(cudaGetDevice(&before), "cudaGetDevice");
  if (const cudaError_t status = cudaSetDevice(index); status != cudaSuccess) {
    return no_device(fmt::format("device {}: {}", index, cudaGetErrorString(status)));
  }
  DeviceInfo info = describe_device(index);
  const cudaError_t probed = probe_kernel_image();
  if (probed != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // it is told; the next call shall not report it again
    static_cast<void>(cudaSetDevice(before));
    return no_device(fmt::format(
        "this build has code for {}, and {} has compute capability {}.{} ({})",
        MILLRACE_CUDA_ARCHITECTURES,
        info.name,
        info.compute_capability / 10,
        info.compute_capability % 10,
        cudaGetErrorString(probed)
    ));
  }
  const MemoryInfo memory = memory_info();
  info.num_memory_bytes = memory.num_bytes;
  info.num_memory_bytes_free = memory.num_bytes_free;
  check_cuda(cudaSetDevice(before), "cudaSetDevice");
  return info;
}

void use_device(int32_t index) {
  check_cuda(cudaSetDevice(index), "cudaSetDevice");
}

}  // namespace millrace::cuda
