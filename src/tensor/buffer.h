// Owned memory for weights, KV blocks and activations.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace millrace {

// Zero-filled memory aligned to 64 bytes; from 2 MiB on aligned to 2 MiB and backed by huge pages
// where the system gives them. Freed with the object.
class Buffer {
 public:
  Buffer() = default;
  // kResourceExhausted when the system has no such memory to give.
  static Result<Buffer> allocate(size_t num_bytes);

  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  size_t num_bytes() const { return bytes_.size(); }
  std::span<std::byte> bytes() { return bytes_; }
  std::span<const std::byte> bytes() const { return bytes_; }

  // The memory as elements of T, a trivial type; a remainder smaller than T is left out.
  template <class T>
  std::span<T> as() {
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }
  template <class T>
  std::span<const T> as() const {
    return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

 private:
  std::span<std::byte> bytes_;
  void* mapping_ = nullptr;  // bytes_ lie within it
  size_t num_bytes_mapped_ = 0;
};

}  // namespace millrace
