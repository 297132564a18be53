// Streams, events and graphs of the emulated device: queues of closures. Within the emulator only;
// others see handles (cuda/runtime.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "cuda/runtime.h"

namespace millrace::cuda {

using Work = std::function<void()>;

// What a capture has recorded, in the order it was given: an order in which everything runs after
// what it waits for, whichever streams it came by.
struct EmulatedGraph {
  std::vector<Work> work;
};

struct EmulatedStream {
  bool is_late = false;
  std::deque<Work> queue;  // of a late stream: what it was given and has not done
  uint64_t num_given = 0;
  uint64_t num_done = 0;
  std::shared_ptr<EmulatedGraph> capture;  // shared with the streams that joined it
  bool began_capture = false;
};

struct EmulatedEvent {
  EventKind kind = EventKind::kUntimed;
  // What it stands for: the first so many of a stream's work. No stream: nothing.
  EmulatedStream* stream = nullptr;
  uint64_t num_given = 0;
  std::shared_ptr<EmulatedGraph> capture;  // recorded while capturing: who waits for it joins
  std::chrono::steady_clock::time_point time;
  bool has_time = false;
};

inline EmulatedStream* stream_of(StreamHandle stream) {
  return static_cast<EmulatedStream*>(stream.native);
}
inline EmulatedEvent* event_of(EventHandle event) {
  return static_cast<EmulatedEvent*>(event.native);
}

// Does what the stream has not done, as far as its first `num_given` pieces of work.
void catch_up(EmulatedStream& stream, uint64_t num_given);

// As a device's memory is freed: after everything that any stream was given.
void catch_up_all();

// Whether a stream of the calling thread captures.
bool is_capturing();

}  // namespace millrace::cuda
