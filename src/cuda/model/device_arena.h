// Device memory that is taken once, at start, and given out piece by piece.
#pragma once

#include <cstddef>
#include <optional>

#include "base/check.h"
#include "base/math.h"
#include "cuda/device_buffer.h"

namespace millrace::cuda {

class DeviceArena {
 public:
  // Every piece begins at a multiple of it.
  static constexpr size_t kAlignment = 256;

  DeviceArena() = default;  // of no bytes
  // kResourceExhausted: the device has not as much.
  static Result<DeviceArena> allocate(size_t num_bytes) {
    Result<DeviceBuffer> buffer = DeviceBuffer::allocate(num_bytes);
    if (!buffer) return buffer.error();
    DeviceArena arena;
    arena.buffer_ = *std::move(buffer);
    return arena;
  }

  // What a piece takes of an arena. REQUIRES: a size that fits in 64 bits.
  template <class T>
  static constexpr size_t piece_bytes(size_t count) {
    return round_up(count * sizeof(T), kAlignment);
  }

  // REQUIRES: the arena was made for it.
  template <class T>
  T* take(size_t count) {
    T* const piece = buffer_.as<T>(num_bytes_taken_);
    num_bytes_taken_ += piece_bytes<T>(count);
    CHECK(num_bytes_taken_ <= buffer_.num_bytes(), "an arena gives out what it was made for");
    return piece;
  }

  size_t num_bytes() const { return buffer_.num_bytes(); }

 private:
  DeviceBuffer buffer_;
  size_t num_bytes_taken_ = 0;
};

}  // namespace millrace::cuda
