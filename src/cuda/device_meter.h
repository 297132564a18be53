// What a CUDA device can do at most, measured between the runs that are held against it.
#pragma once

#include <cstdint>
#include <memory>

#include "base/result.h"

namespace millrace::cuda {

// Borrowed by one thread at a time, whose device it makes its own.
class DeviceMeter {
 public:
  virtual ~DeviceMeter() = default;

  // Bytes a second that a kernel reads from the device's memory: the best of a few passes over far
  // more than its caches hold.
  virtual double read_bytes_per_second() = 0;

  // Operations a second of cuBLASLt's product of two bfloat16 matrices of 8192 x 8192 random
  // numbers: the best of a few. A multiply-add is two.
  virtual double operations_per_second() = 0;
};

// Takes 1.5 GiB of the device. kNotFound, "no CUDA device: ...", or no cuBLASLt;
// kResourceExhausted for memory.
Result<std::unique_ptr<DeviceMeter>> open_device_meter(int32_t device);

}  // namespace millrace::cuda
