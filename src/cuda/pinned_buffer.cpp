#include "cuda/pinned_buffer.h"

#include <utility>

#include "cuda/runtime.h"

namespace millrace::cuda {

Result<PinnedBuffer> PinnedBuffer::allocate(size_t num_bytes) {
  const Result<void*> data = allocate_pinned(num_bytes);
  if (!data) return data.error();
  PinnedBuffer buffer;
  buffer.data_ = *data;
  buffer.num_bytes_ = num_bytes;
  return buffer;
}

PinnedBuffer::PinnedBuffer(PinnedBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), num_bytes_(std::exchange(other.num_bytes_, 0)) {}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(num_bytes_, other.num_bytes_);
  return *this;
}

PinnedBuffer::~PinnedBuffer() {
  free_pinned(data_);
}

}  // namespace millrace::cuda
