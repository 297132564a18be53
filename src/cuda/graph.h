// Owns a recorded piece of work that starts as one: a step's kernels cost one launch.
#pragma once

#include <functional>

#include "base/result.h"
#include "cuda/runtime.h"

namespace millrace::cuda {

// Belongs to one thread at a time. What it works on (buffers, events) outlives it.
class Graph {
 public:
  // Records what `give_work` gives to `stream`, and to streams that join it (begin_capture()), in
  // place of doing it. kResourceExhausted: no memory for the graph on the device.
  // REQUIRES: `give_work` waits for nothing and neither allocates nor frees.
  static Result<Graph> capture(StreamHandle stream, const std::function<void()>& give_work);
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;
  ~Graph();  // REQUIRES: no launch of it is under way

  // Once more, with the same addresses and sizes and what lies there by then.
  void launch(StreamHandle stream) const { launch_graph(stream, handle_); }

 private:
  explicit Graph(GraphHandle handle) : handle_(handle) {}

  GraphHandle handle_;
};

}  // namespace millrace::cuda
