// The few calls to a CUDA device that everything else of cuda/ is made of. CUDA-free; which of
// three implementations runs is chosen when a program is linked: native/ (a device), absent/ (a
// build without the toolkit: one clear error), emulated/ (the processor, for tests).
//
// Errors. What a machine can lack (no device, no memory) is a Result. Everything else that a call
// can report is a defect of ours or of the device, after which nothing on it can be trusted: an
// illegal address, a failed launch, an argument CUDA refuses. It prints "CUDA device failed: ..."
// and aborts; the supervisor restarts the process. CUDA reports the faults of earlier work late:
// the line names the call that learned of it.
//
// Threads. All functions may be called from any thread; a stream, an event and a graph belong to
// one thread at a time. CUDA's current device is one per thread: each thread that calls anything
// else here calls use_device() first, or works on device 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "cuda/stream.h"

namespace millrace::cuda {

struct DeviceInfo {
  int32_t index = 0;
  std::string name;
  int32_t compute_capability = 0;  // 10 * major + minor: 90 of an H200
  int32_t num_multiprocessors = 0;
  int64_t num_memory_bytes = 0;
  int64_t num_memory_bytes_free = 0;  // when it was asked; others may use the device too
  int64_t num_l2_bytes = 0;
  int32_t num_shared_bytes_per_block_max = 0;  // what a kernel may ask for, beyond the usual 48 KiB
  int32_t num_shared_bytes_per_multiprocessor = 0;
  int32_t num_threads_per_multiprocessor = 0;
  int32_t driver_version = 0;   // the newest CUDA that the driver knows: 13000 is 13.0
  int32_t runtime_version = 0;  // the CUDA that this was built with
};

// What this build's backend is, for people: "for sm_90a, CUDA 13.0", "none", "emulated".
std::string describe_build();

// The device that can run this build's kernels. kNotFound, "no CUDA device: ...", with the reason:
// no backend in this build, no driver, a driver older than the toolkit, no device, no such index,
// no code for its architecture. Never takes longer than the driver's own start (seconds at most).
Result<DeviceInfo> find_device(int32_t index);

// Makes it the calling thread's device. REQUIRES: find_device(index) found it.
void use_device(int32_t index);

// Of the calling thread's device, in bytes.
struct MemoryInfo {
  int64_t num_bytes = 0;
  int64_t num_bytes_free = 0;
};
MemoryInfo memory_info();

// Device memory, aligned to 256 bytes, its bytes undefined. kResourceExhausted: there is not as
// much. Zero bytes: a null pointer. Not while a stream of this thread captures.
Result<void*> allocate_device(size_t num_bytes);
// Waits for what uses it. Null: nothing.
void free_device(void* device);

// Host memory that a device copies to and from while the processor goes on. As allocate_device().
Result<void*> allocate_pinned(size_t num_bytes);
void free_pinned(void* host);

// The copies and the set below go into the stream and return. Host memory must be pinned, for the
// copy to be asynchronous, and stay as it is until the copy is done: of memory that is not pinned,
// the call may return late or early.
void copy_to_device(StreamHandle stream, void* device, std::span<const std::byte> host);
void copy_to_host(StreamHandle stream, std::span<std::byte> host, const void* device);
// The two must not overlap.
void copy_on_device(StreamHandle stream, void* to, const void* from, size_t num_bytes);
// Every byte becomes `value`.
void set_bytes(StreamHandle stream, void* device, uint8_t value, size_t num_bytes);

// A stream that does not wait for the default stream, nor the other way round.
Result<StreamHandle> create_stream();
// What is in it is done all the same. Null: nothing.
void destroy_stream(StreamHandle stream);
// Returns when everything that was given to the stream is done. Not while it captures.
void wait_for(StreamHandle stream);

// A point in a stream. Borrowed; an Event owns it.
struct EventHandle {
  void* native = nullptr;  // cudaEvent_t on a device
};

enum class EventKind {
  kTimed,
  kUntimed,  // cheaper; elapsed_ms() does not take it
};

Result<EventHandle> create_event(EventKind kind);
void destroy_event(EventHandle event);
// From now on the event stands for what the stream was given so far.
void record_event(StreamHandle stream, EventHandle event);
// What `stream` is given from now on starts after what the event stands for.
void make_stream_wait(StreamHandle stream, EventHandle event);
// On the host. An event that was never recorded stands for nothing: both return at once.
void wait_for(EventHandle event);
[[nodiscard]] bool is_done(EventHandle event);
// Milliseconds of the device's clock between two timed events. REQUIRES: both recorded and done.
float elapsed_ms(EventHandle first, EventHandle last);

// A recorded piece of work that starts as one. Borrowed; a Graph owns it.
struct GraphHandle {
  void* native = nullptr;  // cudaGraphExec_t on a device
};

// From here to end_capture(), what the stream is given is recorded and not done: addresses and
// sizes as they are now, the memory's contents as they are when it runs. Other streams join by
// make_stream_wait() on an event of a stream that captures, and must come back the same way.
// REQUIRES: the stream is not the default one, and this thread neither allocates nor frees until
// then.
void begin_capture(StreamHandle stream);
// kResourceExhausted: no memory for the graph on the device.
Result<GraphHandle> end_capture(StreamHandle stream);
void launch_graph(StreamHandle stream, GraphHandle graph);
// REQUIRES: no launch of it is under way. Null: nothing.
void destroy_graph(GraphHandle graph);

}  // namespace millrace::cuda
