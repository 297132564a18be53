#include "cuda/device_buffer.h"

#include <utility>

namespace millrace::cuda {

Result<DeviceBuffer> DeviceBuffer::allocate(size_t num_bytes) {
  const Result<void*> data = allocate_device(num_bytes);
  if (!data) return data.error();
  DeviceBuffer buffer;
  buffer.data_ = *data;
  buffer.num_bytes_ = num_bytes;
  return buffer;
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), num_bytes_(std::exchange(other.num_bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(num_bytes_, other.num_bytes_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  free_device(data_);
}

void DeviceBuffer::write(StreamHandle stream, std::span<const std::byte> host, size_t offset_bytes)
    const {
  CHECK(
      offset_bytes <= num_bytes_ && host.size() <= num_bytes_ - offset_bytes,
      "a copy beyond the buffer's end"
  );
  copy_to_device(stream, as<std::byte>(offset_bytes), host);
}

void DeviceBuffer::read(StreamHandle stream, std::span<std::byte> host, size_t offset_bytes) const {
  CHECK(
      offset_bytes <= num_bytes_ && host.size() <= num_bytes_ - offset_bytes,
      "a copy beyond the buffer's end"
  );
  copy_to_host(stream, host, as<std::byte>(offset_bytes));
}

void DeviceBuffer::fill(StreamHandle stream, uint8_t value) const {
  set_bytes(stream, data_, value, num_bytes_);
}

}  // namespace millrace::cuda
