// What a model runs on: decided once, before anything of it is read.
#pragma once

#include "base/result.h"

namespace millrace {

enum class DeviceChoice {
  kAuto,  // the processor, until kernels have been run on a device
  kCpu,
  kCuda,
};

enum class ModelDevice { kCpu, kCuda };

// kNotFound, "no CUDA device: ..." with the reason, where one is asked for and there is none. On a
// machine with a device the first call takes as long as its driver does to start.
Result<ModelDevice> choose_device(DeviceChoice choice);

}  // namespace millrace
