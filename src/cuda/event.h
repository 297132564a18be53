// Owns an event: a point in a stream that others can wait for.
#pragma once

#include "base/result.h"
#include "cuda/runtime.h"

namespace millrace::cuda {

// Belongs to one thread at a time.
class Event {
 public:
  static Result<Event> create(EventKind kind);
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  EventHandle handle() const { return handle_; }
  // From now on it stands for what the stream was given so far.
  void record(StreamHandle stream) const { record_event(stream, handle_); }
  void wait() const { wait_for(handle_); }

 private:
  explicit Event(EventHandle handle) : handle_(handle) {}

  EventHandle handle_;
};

}  // namespace millrace::cuda
