// Owns a piece of the host's memory that stays where it is, so that a device copies to and from it
// while the processor goes on.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "base/result.h"

namespace millrace::cuda {

// Aligned for any type; its bytes are undefined at first. Never swapped out: small by intention.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;  // of no bytes
  // kResourceExhausted: the host does not give as much.
  static Result<PinnedBuffer> allocate(size_t num_bytes);
  PinnedBuffer(PinnedBuffer&& other) noexcept;
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  ~PinnedBuffer();

  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), num_bytes_}; }
  size_t num_bytes() const { return num_bytes_; }

  // All of it as whole Ts.
  template <class T>
  std::span<T> as() const {
    static_assert(std::is_trivially_copyable_v<T>);
    return {static_cast<T*>(data_), num_bytes_ / sizeof(T)};
  }

 private:
  void* data_ = nullptr;
  size_t num_bytes_ = 0;
};

}  // namespace millrace::cuda
