#include "server/model_device.h"

#include "cuda/runtime.h"

namespace millrace {

Result<ModelDevice> choose_device(DeviceChoice choice) {
  // The kernels have not met a device yet: it must be asked for.
  if (choice != DeviceChoice::kCuda) return ModelDevice::kCpu;
  const Result<cuda::DeviceInfo> device = cuda::find_device(0);
  if (!device) return device.error();
  return ModelDevice::kCuda;
}

}  // namespace millrace
