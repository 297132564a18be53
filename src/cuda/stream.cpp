#include "cuda/stream.h"

#include <utility>

#include "cuda/runtime.h"

namespace millrace::cuda {

Result<Stream> Stream::create() {
  const Result<StreamHandle> handle = create_stream();
  if (!handle) return handle.error();
  return Stream(*handle);
}

Stream::Stream(Stream&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Stream::~Stream() {
  destroy_stream(handle_);
}

void Stream::wait() const {
  wait_for(handle_);
}

}  // namespace millrace::cuda
