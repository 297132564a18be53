// The queue of work on a device that an operation goes into. CUDA-free: what runs millrace's
// kernels is chosen when a program is linked (a device, or the processor in tests).
#pragma once

#include "base/result.h"

namespace millrace::cuda {

// Borrowed; a Stream owns it. The work of one stream runs in the order it was given.
struct StreamHandle {
  void* native = nullptr;  // cudaStream_t on a device; null: the default stream
};

// Owns a stream, which does not wait for the default stream, nor the other way round. Belongs to
// one thread at a time.
class Stream {
 public:
  static Result<Stream> create();
  Stream(Stream&& other) noexcept;
  Stream& operator=(Stream&& other) noexcept;
  ~Stream();  // waits for nothing: what was given is done all the same

  StreamHandle handle() const { return handle_; }
  void wait() const;  // until everything that was given is done

 private:
  explicit Stream(StreamHandle handle) : handle_(handle) {}

  StreamHandle handle_;
};

}  // namespace millrace::cuda
