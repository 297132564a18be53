// What every operator needs besides its tensors: the instructions it may use and the threads it may
// use them on. Neither changes a bit of any result.
#pragma once

#include "base/thread_pool.h"
#include "kernels/isa.h"

namespace millrace {

struct Executor {
  Isa isa;
  ThreadPool& pool;
};

}  // namespace millrace
