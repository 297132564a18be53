// Owns a piece of the device's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"
#include "cuda/runtime.h"

namespace millrace::cuda {

// Aligned to 256 bytes; its bytes are undefined at first. The processor cannot read it: copies go
// through a stream. Freed by a thread that uses its device; freeing waits for whatever uses it.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;  // of no bytes
  // kResourceExhausted: there is not as much.
  static Result<DeviceBuffer> allocate(size_t num_bytes);
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer();

  void* data() const { return data_; }
  size_t num_bytes() const { return num_bytes_; }

  // An address on the device, as kernels take it. REQUIRES: the offset is a multiple of T's
  // alignment, and at most num_bytes().
  template <class T>
  T* as(size_t offset_bytes = 0) const {
    CHECK(offset_bytes <= num_bytes_ && offset_bytes % alignof(T) == 0, "no place in the buffer");
    return reinterpret_cast<T*>(static_cast<std::byte*>(data_) + offset_bytes);
  }

  // Into the stream (copy_to_device, copy_to_host): see there what the host's memory must be.
  // REQUIRES: offset and size lie within the buffer.
  void write(StreamHandle stream, std::span<const std::byte> host, size_t offset_bytes = 0) const;
  void read(StreamHandle stream, std::span<std::byte> host, size_t offset_bytes = 0) const;
  void fill(StreamHandle stream, uint8_t value) const;

 private:
  void* data_ = nullptr;
  size_t num_bytes_ = 0;
};

}  // namespace millrace::cuda
