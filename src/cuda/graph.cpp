#include "cuda/graph.h"

#include <utility>

namespace millrace::cuda {

Result<Graph> Graph::capture(StreamHandle stream, const std::function<void()>& give_work) {
  begin_capture(stream);
  give_work();
  const Result<GraphHandle> handle = end_capture(stream);
  if (!handle) return handle.error();
  return Graph(*handle);
}

Graph::Graph(Graph&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}

Graph& Graph::operator=(Graph&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Graph::~Graph() {
  destroy_graph(handle_);
}

}  // namespace millrace::cuda
