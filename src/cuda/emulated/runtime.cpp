// The runtime on the processor: what is found, memory and copies. Streams: streams.cpp.
#include "cuda/runtime.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda/emulated/device_memory.h"
#include "cuda/emulated/streams.h"
#include "cuda/emulated/work.h"

namespace millrace::cuda {
namespace {

constexpr int32_t kVersion = 13000;

void check_not_capturing() {
  CHECK(!is_capturing(), "memory taken or given back in a capture");
}

Result<void*> allocate(EmulatedMemory& memory, size_t num_bytes, std::string_view kind) {
  check_not_capturing();
  if (num_bytes == 0) return static_cast<void*>(nullptr);
  void* const piece = memory.try_allocate(num_bytes);
  if (piece != nullptr) return piece;
  return Error{
      ErrorCode::kResourceExhausted,
      fmt::format(
          "the emulated device has no {} bytes of {}; {} are free",
          num_bytes,
          kind,
          memory.info().num_bytes_free
      )};
}

// A copy checks both ends when it is given, where its caller can be seen.
void check_device_range(const void* device, size_t num_bytes) {
  CHECK(device_memory().holds(device, num_bytes), "a range that is not of one device allocation");
}

void check_host_range(const void* host, size_t num_bytes) {
  CHECK(
      num_bytes == 0 || !device_memory().holds(host, 1), "device memory where a host's is expected"
  );
}

bool is_pinned(const void* host, size_t num_bytes) {
  return pinned_memory().holds(host, num_bytes);
}

bool is_captured(StreamHandle stream) {
  return stream_of(stream) && stream_of(stream)->capture;
}

}  // namespace

std::string describe_build() {
  return "emulated";
}

Result<DeviceInfo> find_device(int32_t index) {
  if (index != 0) {
    return not_found(fmt::format("no CUDA device: there is no device {}, only 0", index));
  }
  const MemoryInfo memory = memory_info();
  return DeviceInfo{
      .index = 0,
      .name = "emulated device",
      .compute_capability = 90,
      .num_multiprocessors = 4,
      .num_memory_bytes = memory.num_bytes,
      .num_memory_bytes_free = memory.num_bytes_free,
      .num_l2_bytes = 50 << 20,
      .num_shared_bytes_per_block_max = 227 << 10,
      .num_shared_bytes_per_multiprocessor = 228 << 10,
      .num_threads_per_multiprocessor = 2048,
      .driver_version = kVersion,
      .runtime_version = kVersion,
  };
}

void use_device(int32_t index) {
  CHECK(index == 0, "there is one emulated device");
}

MemoryInfo memory_info() {
  return device_memory().info();
}

Result<void*> allocate_device(size_t num_bytes) {
  return allocate(device_memory(), num_bytes, "device memory");
}

void free_device(void* device) {
  if (device == nullptr) return;
  check_not_capturing();
  catch_up_all();
  device_memory().free(device);
}

Result<void*> allocate_pinned(size_t num_bytes) {
  return allocate(pinned_memory(), num_bytes, "pinned memory");
}

void free_pinned(void* host) {
  if (host == nullptr) return;
  check_not_capturing();
  catch_up_all();
  pinned_memory().free(host);
}

void copy_to_device(StreamHandle stream, void* device, std::span<const std::byte> host) {
  check_device_range(device, host.size());
  check_host_range(host.data(), host.size());
  if (host.empty()) return;
  if (is_pinned(host.data(), host.size()) || is_captured(stream)) {
    run_or_record(stream, [device, host] { std::memcpy(device, host.data(), host.size()); });
    return;
  }
  // What is not pinned has been read when the call returns.
  run_or_record(stream, [device, read = std::vector(host.begin(), host.end())] {
    std::memcpy(device, read.data(), read.size());
  });
}

void copy_to_host(StreamHandle stream, std::span<std::byte> host, const void* device) {
  check_device_range(device, host.size());
  check_host_range(host.data(), host.size());
  if (host.empty()) return;
  run_or_record(stream, [device, host] { std::memcpy(host.data(), device, host.size()); });
  // What is not pinned has been written when the call returns.
  if (!is_pinned(host.data(), host.size()) && !is_captured(stream)) wait_for(stream);
}

void copy_on_device(StreamHandle stream, void* to, const void* from, size_t num_bytes) {
  check_device_range(to, num_bytes);
  check_device_range(from, num_bytes);
  if (num_bytes == 0) return;
  const auto* const source = static_cast<const std::byte*>(from);
  const auto* const target = static_cast<const std::byte*>(to);
  CHECK(source + num_bytes <= target || target + num_bytes <= source, "a copy onto itself");
  run_or_record(stream, [to, from, num_bytes] { std::memcpy(to, from, num_bytes); });
}

void set_bytes(StreamHandle stream, void* device, uint8_t value, size_t num_bytes) {
  check_device_range(device, num_bytes);
  if (num_bytes == 0) return;
  run_or_record(stream, [device, value, num_bytes] { std::memset(device, value, num_bytes); });
}

}  // namespace millrace::cuda
