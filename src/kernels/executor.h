// What every operator needs besides its tensors: the instructions it may use and the threads it may
// use them on. Neither changes a bit of any result.
#pragma once

#include <cstddef>

#include "base/thread_pool.h"
#include "kernels/isa.h"

namespace millrace {

struct Executor {
  Isa isa;
  ThreadPool& pool;
  // How far ahead of what they multiply some kernels ask for weights (isa.h).
  size_t hint_bytes = best_hint_bytes();

  // function(begin, end) over parts of [0, num_rows), for work of a few cycles on each 16 elements.
  // What is estimated to take about a microsecond stays on this thread: a phase costs 0.2 us where
  // every thread has a core of its own, and more where they must share one.
  template <class F>
  void for_row_ranges(size_t num_rows, size_t num_columns, const F& function) const {
    constexpr size_t kNumElementsAlone = size_t{1} << 14;
    if (num_rows == 0) return;
    if (num_rows * num_columns <= kNumElementsAlone) return function(0, num_rows);
    pool.parallel_for(num_rows, function);
  }
};

}  // namespace millrace
