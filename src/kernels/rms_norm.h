// Root mean square normalization (Zhang and Sennrich 2019): out = x / sqrt(mean(x^2) + eps) *
// weight.
//
// The squares are summed in 16 lanes, lane i taking columns i, i + 16, ..., and the lanes in halves
// (see lanes.h); then out = (x * (1 / sqrt(sum / n + eps))) * weight.
#pragma once

#include <span>

#include "kernels/executor.h"
#include "kernels/rms_norm_kernel.h"
#include "kernels/rows.h"

namespace millrace {

struct RmsNormArgs {
  ConstRows x;                    // [num_tokens, hidden]
  std::span<const float> weight;  // [hidden]
  float eps = 0.0F;
  Rows out;  // [num_tokens, hidden]; may be x itself
};

void rms_norm(const Executor& executor, const RmsNormArgs& args);

// The same for rows that are asked for: whoever reads `out` next normalizes each row when it comes
// to it, on the same thread.
class RmsNormRows {
 public:
  RmsNormRows(Isa isa, const RmsNormArgs& args);

  void operator()(size_t row_begin, size_t row_end) const { function_(task_, row_begin, row_end); }

 private:
  RmsNormTask task_;
  void (*function_)(const RmsNormTask&, size_t, size_t);
};

}  // namespace millrace
