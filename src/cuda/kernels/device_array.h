// An array in device memory, for the kernels' tests: on a device and in emulation alike.
#pragma once

#include <cstring>
#include <span>
#include <vector>

#include "base/check.h"
#include "cuda/device_buffer.h"
#include "cuda/runtime.h"

namespace millrace::cuda {

// Of a plain type T. Copies of the values are made when it is made and when it is read; reading
// waits for the default stream.
template <class T>
class DeviceArray {
 public:
  // Bytes of 0xFF at first: NaN as float and as bfloat16, so that what was never written shows.
  explicit DeviceArray(size_t size) : size_(size) {
    Result<DeviceBuffer> buffer = DeviceBuffer::allocate(size * sizeof(T));
    CHECK(static_cast<bool>(buffer), "device memory for a test");
    buffer_ = std::move(*buffer);
    if (size > 0) buffer_.fill({}, 0xFF);
  }
  explicit DeviceArray(std::span<const T> values) : DeviceArray(values.size()) { write(values); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(std::span<const T>(values)) {}

  T* data() const { return buffer_.template as<T>(); }
  size_t size() const { return size_; }

  void write(std::span<const T> values) const {
    CHECK(values.size() == size_, "as many values as there are");
    if (size_ > 0) buffer_.write({}, std::as_bytes(values));
    wait_for(StreamHandle{});
  }

  std::vector<T> read() const {
    std::vector<T> values(size_);
    if (size_ > 0) buffer_.read({}, std::as_writable_bytes(std::span<T>(values)));
    wait_for(StreamHandle{});
    return values;
  }

 private:
  DeviceBuffer buffer_;
  size_t size_;
};

}  // namespace millrace::cuda
