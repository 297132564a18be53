// The largest logits of each row on a device, and what their probabilities are made of, so that no
// row of logits needs to be copied. With k = 1 it is the arg max.
//
// Among equal logits the lowest id comes first; NaN counts as -infinity. The exponentials of the
// differences to a row's maximum are added in one order for a length of row: in chunks of 8192,
// thread t of 256 taking elements t, t + 256, ... of a chunk; the threads of a warp in halves, the
// warps in ascending order; the chunks in ascending order with M' = max(M, m),
// S = s * exp(m - M') + S * exp(M - M'), the first product fused.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/stream.h"

namespace millrace::cuda {

constexpr size_t kTopKMax = 64;

// log of the sum of all exponentials of a row = maximum + log(sum); the host takes the logarithm.
// A row of -infinity alone: maximum -infinity, sum 0.
struct RowSum {
  float maximum = 0.0F;
  float sum = 0.0F;  // of exp(logit - maximum)
};

struct TopKArgs {
  const float* logits = nullptr;  // [num_rows, num_columns], device
  const int32_t* rows = nullptr;  // [num_rows], device: those of `logits`; null: the first ones
  size_t num_rows = 0;
  size_t num_columns = 0;
  size_t k = 1;             // at most kTopKMax and num_columns
  float* values = nullptr;  // [num_rows, k], device: descending
  int32_t* ids = nullptr;   // [num_rows, k], device
  RowSum* sums = nullptr;   // [num_rows], device
  void* scratch = nullptr;  // top_k_scratch_bytes(), device, 16-byte aligned
};

size_t top_k_scratch_bytes(size_t num_rows, size_t num_columns, size_t k);

// No rows: nothing happens.
void top_k(StreamHandle stream, const TopKArgs& args);

}  // namespace millrace::cuda
