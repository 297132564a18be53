// The emulated device's memory: pieces of the processor's, of which it is known where they begin
// and end, so that what a device would answer with a fault ends here in a clear line. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>

#include "cuda/runtime.h"

namespace millrace::cuda {

// One kind of memory: the device's own, or the host's pinned memory.
class EmulatedMemory {
 public:
  explicit EmulatedMemory(int64_t num_bytes) : num_bytes_(num_bytes) {}

  // nullptr: less than that is free. Every byte is 0xFF: a number that nobody wrote is no number.
  void* try_allocate(size_t num_bytes);
  // CHECKs that try_allocate() returned it.
  void free(void* memory);

  // Whether all of it lies within one allocation. No bytes: yes, wherever they are.
  [[nodiscard]] bool holds(const void* memory, size_t num_bytes);
  [[nodiscard]] MemoryInfo info();

 private:
  const int64_t num_bytes_;
  std::mutex mutex_;
  int64_t num_bytes_used_ = 0;
  std::map<const std::byte*, size_t, std::greater<>> pieces_;  // start to number of bytes
};

// The process's one device, as CUDA's is: its functions take no object that could hold it.
EmulatedMemory& device_memory();
EmulatedMemory& pinned_memory();

}  // namespace millrace::cuda
