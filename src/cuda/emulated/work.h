// Where an emulated stream's work goes: everything a stream can be given (copies, sets, kernels) is
// a closure here. Tests only.
#pragma once

#include <functional>

#include "cuda/stream.h"

namespace millrace::cuda {

// Runs `work` before it returns, in the calling thread; while the stream captures, keeps it for
// each launch of the graph; in a late stream (below), runs it when it must. So `work` owns copies
// of its arguments, and what they point to is read when it runs.
void run_or_record(StreamHandle stream, std::function<void()> work);

// A stream that is created while one of these lives is late: it does nothing until it is waited
// for, as a slow device would. Whoever reads a result before it is there, or writes over what a
// copy is still to read, then gets wrong values in every run and not in one of a million.
class LateStreams {
 public:
  LateStreams();
  ~LateStreams();
  LateStreams(const LateStreams&) = delete;
  LateStreams& operator=(const LateStreams&) = delete;
};

}  // namespace millrace::cuda
