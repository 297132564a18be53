#include "cuda/emulated/device_memory.h"

#include <cstdlib>
#include <cstring>

#include "base/math.h"

namespace millrace::cuda {
namespace {

constexpr size_t kAlignment = 256;  // as cudaMalloc's
constexpr int64_t kDeviceBytes = int64_t{8} << 30;
constexpr int64_t kPinnedBytes = int64_t{8} << 30;

}  // namespace

void* EmulatedMemory::try_allocate(size_t num_bytes) {
  const std::lock_guard lock(mutex_);
  const auto num_bytes_free = static_cast<size_t>(num_bytes_ - num_bytes_used_);
  if (num_bytes == 0 || num_bytes > num_bytes_free) return nullptr;
  // Not aligned_alloc(), whose size is a multiple of the alignment: ASan shall find the first byte
  // that a kernel touches behind the end.
  void* memory = nullptr;
  if (::posix_memalign(&memory, kAlignment, num_bytes) != 0) return nullptr;
  std::memset(memory, 0xFF, num_bytes);
  pieces_.emplace(static_cast<const std::byte*>(memory), num_bytes);
  num_bytes_used_ += static_cast<int64_t>(num_bytes);
  return memory;
}

void EmulatedMemory::free(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto piece = pieces_.find(static_cast<const std::byte*>(memory));
  CHECK(piece != pieces_.end(), "freed memory that was not allocated here, or was freed before");
  num_bytes_used_ -= static_cast<int64_t>(piece->second);
  pieces_.erase(piece);
  std::free(memory);
}

bool EmulatedMemory::holds(const void* memory, size_t num_bytes) {
  if (num_bytes == 0) return true;
  const std::lock_guard lock(mutex_);
  const auto* start = static_cast<const std::byte*>(memory);
  const auto piece = pieces_.lower_bound(start);  // the last that begins at or before `start`
  if (piece == pieces_.end()) return false;
  const auto offset = static_cast<size_t>(start - piece->first);
  return offset < piece->second && num_bytes <= piece->second - offset;
}

MemoryInfo EmulatedMemory::info() {
  const std::lock_guard lock(mutex_);
  return {.num_bytes = num_bytes_, .num_bytes_free = num_bytes_ - num_bytes_used_};
}

EmulatedMemory& device_memory() {
  static EmulatedMemory memory(kDeviceBytes);
  return memory;
}

EmulatedMemory& pinned_memory() {
  static EmulatedMemory memory(kPinnedBytes);
  return memory;
}

}  // namespace millrace::cuda
