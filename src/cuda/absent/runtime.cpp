// The runtime of a build without the CUDA toolkit: there is no device, and it says why. Whatever
// would take memory or a stream says the same; whatever needs one first cannot be reached.
#include "cuda/runtime.h"

namespace millrace::cuda {
namespace {

constexpr const char* kReason =
    "this build has no CUDA backend; build it where nvcc is on PATH, or after `./dev setup --cuda`";

Error no_backend() {
  return not_found(std::string("no CUDA device: ") + kReason);
}

[[noreturn]] void unreachable() {
  check_failed(__FILE__, __LINE__, "a CUDA device was found", kReason);
}

}  // namespace

std::string describe_build() {
  return "none";
}

Result<DeviceInfo> find_device(int32_t) {
  return no_backend();
}
Result<void*> allocate_device(size_t) {
  return no_backend();
}
Result<void*> allocate_pinned(size_t) {
  return no_backend();
}
Result<StreamHandle> create_stream() {
  return no_backend();
}
Result<EventHandle> create_event(EventKind) {
  return no_backend();
}

// What owns nothing gives nothing back.
void free_device(void* device) {
  CHECK(device == nullptr, kReason);
}
void free_pinned(void* host) {
  CHECK(host == nullptr, kReason);
}
void destroy_stream(StreamHandle stream) {
  CHECK(stream.native == nullptr, kReason);
}
void destroy_event(EventHandle event) {
  CHECK(event.native == nullptr, kReason);
}
void destroy_graph(GraphHandle graph) {
  CHECK(graph.native == nullptr, kReason);
}

void use_device(int32_t) {
  unreachable();
}
MemoryInfo memory_info() {
  unreachable();
}
void copy_to_device(StreamHandle, void*, std::span<const std::byte>) {
  unreachable();
}
void copy_to_host(StreamHandle, std::span<std::byte>, const void*) {
  unreachable();
}
void copy_on_device(StreamHandle, void*, const void*, size_t) {
  unreachable();
}
void set_bytes(StreamHandle, void*, uint8_t, size_t) {
  unreachable();
}
void wait_for(StreamHandle) {
  unreachable();
}
void record_event(StreamHandle, EventHandle) {
  unreachable();
}
void make_stream_wait(StreamHandle, EventHandle) {
  unreachable();
}
void wait_for(EventHandle) {
  unreachable();
}
bool is_done(EventHandle) {
  unreachable();
}
float elapsed_ms(EventHandle, EventHandle) {
  unreachable();
}
void begin_capture(StreamHandle) {
  unreachable();
}
Result<GraphHandle> end_capture(StreamHandle) {
  unreachable();
}
void launch_graph(StreamHandle, GraphHandle) {
  unreachable();
}

}  // namespace millrace::cuda
