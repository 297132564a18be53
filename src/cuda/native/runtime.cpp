// The runtime on a device, one CUDA call each: memory, copies, streams, events, graphs. What is
// found: device.cpp.
#include "cuda/runtime.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "cuda/native/cuda_check.h"

namespace millrace::cuda {
namespace {

cudaStream_t native(StreamHandle stream) {
  return static_cast<cudaStream_t>(stream.native);
}
cudaEvent_t native(EventHandle event) {
  return static_cast<cudaEvent_t>(event.native);
}
cudaGraphExec_t native(GraphHandle graph) {
  return static_cast<cudaGraphExec_t>(graph.native);
}

// A refusal for want of memory is an answer, not a fault: nothing of it may stay for later calls.
Error exhausted(std::string message) {
  static_cast<void>(cudaGetLastError());
  return {ErrorCode::kResourceExhausted, std::move(message)};
}

}  // namespace

MemoryInfo memory_info() {
  size_t num_bytes_free = 0;
  size_t num_bytes = 0;
  check_cuda(cudaMemGetInfo(&num_bytes_free, &num_bytes), "cudaMemGetInfo");
  return {
      .num_bytes = static_cast<int64_t>(num_bytes),
      .num_bytes_free = static_cast<int64_t>(num_bytes_free),
  };
}

Result<void*> allocate_device(size_t num_bytes) {
  void* device = nullptr;
  if (num_bytes == 0) return device;
  const cudaError_t status = cudaMalloc(&device, num_bytes);
  if (status == cudaErrorMemoryAllocation) {
    return exhausted(fmt::format(
        "the CUDA device has no {} bytes left; {} are free", num_bytes, memory_info().num_bytes_free
    ));
  }
  check_cuda(status, "cudaMalloc");
  return device;
}

void free_device(void* device) {
  check_cuda(cudaFree(device), "cudaFree");
}

Result<void*> allocate_pinned(size_t num_bytes) {
  void* host = nullptr;
  if (num_bytes == 0) return host;
  const cudaError_t status = cudaMallocHost(&host, num_bytes);
  if (status == cudaErrorMemoryAllocation) {
    return exhausted(fmt::format("the machine gives no {} bytes of pinned memory", num_bytes));
  }
  check_cuda(status, "cudaMallocHost");
  return host;
}

void free_pinned(void* host) {
  check_cuda(cudaFreeHost(host), "cudaFreeHost");
}

void copy_to_device(StreamHandle stream, void* device, std::span<const std::byte> host) {
  check_cuda(
      cudaMemcpyAsync(device, host.data(), host.size(), cudaMemcpyHostToDevice, native(stream)),
      "cudaMemcpyAsync to the device"
  );
}

void copy_to_host(StreamHandle stream, std::span<std::byte> host, const void* device) {
  check_cuda(
      cudaMemcpyAsync(host.data(), device, host.size(), cudaMemcpyDeviceToHost, native(stream)),
      "cudaMemcpyAsync to the host"
  );
}

void copy_on_device(StreamHandle stream, void* to, const void* from, size_t num_bytes) {
  check_cuda(
      cudaMemcpyAsync(to, from, num_bytes, cudaMemcpyDeviceToDevice, native(stream)),
      "cudaMemcpyAsync on the device"
  );
}

void set_bytes(StreamHandle stream, void* device, uint8_t value, size_t num_bytes) {
  check_cuda(cudaMemsetAsync(device, value, num_bytes, native(stream)), "cudaMemsetAsync");
}

Result<StreamHandle> create_stream() {
  cudaStream_t stream = nullptr;
  const cudaError_t status = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (status == cudaErrorMemoryAllocation) return exhausted("no memory for a CUDA stream");
  check_cuda(status, "cudaStreamCreateWithFlags");
  return StreamHandle{stream};
}

void destroy_stream(StreamHandle stream) {
  if (stream.native != nullptr) check_cuda(cudaStreamDestroy(native(stream)), "cudaStreamDestroy");
}

void wait_for(StreamHandle stream) {
  check_cuda(cudaStreamSynchronize(native(stream)), "cudaStreamSynchronize");
}

Result<EventHandle> create_event(EventKind kind) {
  cudaEvent_t event = nullptr;
  const unsigned flags = kind == EventKind::kTimed ? cudaEventDefault : cudaEventDisableTiming;
  const cudaError_t status = cudaEventCreateWithFlags(&event, flags);
  if (status == cudaErrorMemoryAllocation) return exhausted("no memory for a CUDA event");
  check_cuda(status, "cudaEventCreateWithFlags");
  return EventHandle{event};
}

void destroy_event(EventHandle event) {
  if (event.native != nullptr) check_cuda(cudaEventDestroy(native(event)), "cudaEventDestroy");
}

void record_event(StreamHandle stream, EventHandle event) {
  check_cuda(cudaEventRecord(native(event), native(stream)), "cudaEventRecord");
}

void make_stream_wait(StreamHandle stream, EventHandle event) {
  check_cuda(cudaStreamWaitEvent(native(stream), native(event)), "cudaStreamWaitEvent");
}

void wait_for(EventHandle event) {
  check_cuda(cudaEventSynchronize(native(event)), "cudaEventSynchronize");
}

bool is_done(EventHandle event) {
  const cudaError_t status = cudaEventQuery(native(event));
  if (status == cudaErrorNotReady) {
    static_cast<void>(cudaGetLastError());  // an answer, that a later call shall not report again
    return false;
  }
  check_cuda(status, "cudaEventQuery");
  return true;
}

float elapsed_ms(EventHandle first, EventHandle last) {
  float elapsed = 0;
  check_cuda(cudaEventElapsedTime(&elapsed, native(first), native(last)), "cudaEventElapsedTime");
  return elapsed;
}

void begin_capture(StreamHandle stream) {
  // Of this thread: others may load or measure meanwhile.
  check_cuda(
      cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal),
      "cudaStreamBeginCapture"
  );
}

Result<GraphHandle> end_capture(StreamHandle stream) {
  cudaGraph_t graph = nullptr;
  check_cuda(cudaStreamEndCapture(native(stream), &graph), "cudaStreamEndCapture");
  cudaGraphExec_t executable = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&executable, graph, 0);
  check_cuda(cudaGraphDestroy(graph), "cudaGraphDestroy");
  if (status == cudaErrorMemoryAllocation) return exhausted("no device memory for a CUDA graph");
  check_cuda(status, "cudaGraphInstantiate");
  // To the device now, so that the first launch costs no more than any other.
  const cudaError_t uploaded = cudaGraphUpload(executable, native(stream));
  if (uploaded == cudaErrorMemoryAllocation) {
    check_cuda(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
    return exhausted("no device memory for a CUDA graph");
  }
  check_cuda(uploaded, "cudaGraphUpload");
  return GraphHandle{executable};
}

void launch_graph(StreamHandle stream, GraphHandle graph) {
  check_cuda(cudaGraphLaunch(native(graph), native(stream)), "cudaGraphLaunch");
}

void destroy_graph(GraphHandle graph) {
  if (graph.native != nullptr) {
    check_cuda(cudaGraphExecDestroy(native(graph)), "cudaGraphExecDestroy");
  }
}

}  // namespace millrace::cuda
