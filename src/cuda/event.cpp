#include "cuda/event.h"

#include <utility>

namespace millrace::cuda {

Result<Event> Event::create(EventKind kind) {
  const Result<EventHandle> handle = create_event(kind);
  if (!handle) return handle.error();
  return Event(*handle);
}

Event::Event(Event&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Event::~Event() {
  destroy_event(handle_);
}

}  // namespace millrace::cuda
