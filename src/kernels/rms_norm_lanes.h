// rms_norm on sixteen lanes. See lanes.h for the rules of this file.
#pragma once

#include "kernels/lanes.h"
#include "kernels/rms_norm_kernel.h"

namespace millrace {
namespace {

template <class Lanes>
[[gnu::always_inline]] inline void rms_norm_row(
    const float* x, const float* weight, float eps, size_t num_columns, float* out
) {
  const size_t whole = num_columns / kLanes * kLanes;
  const size_t rest = num_columns - whole;
  Lanes sums = Lanes::zero();
  for (size_t i = 0; i < whole; i += kLanes) {
    const Lanes values = Lanes::load(x + i);
    sums = Lanes::fma(values, values, sums);
  }
  if (rest > 0) {
    const Lanes values = Lanes::load_first(x + whole, rest);
    sums = Lanes::fma(values, values, sums);
  }
  const float mean = Lanes::sum(sums) / static_cast<float>(num_columns);
  const Lanes factor = Lanes::broadcast(1.0F / __builtin_sqrtf(mean + eps));
  for (size_t i = 0; i < whole; i += kLanes) {
    const Lanes scaled = Lanes::mul(Lanes::load(x + i), factor);
    Lanes::store(out + i, Lanes::mul(scaled, Lanes::load(weight + i)));
  }
  if (rest > 0) {
    const Lanes scaled = Lanes::mul(Lanes::load_first(x + whole, rest), factor);
    const Lanes last = Lanes::load_first(weight + whole, rest);
    Lanes::store_first(out + whole, Lanes::mul(scaled, last), rest);
  }
}

template <class Lanes>
void rms_norm_rows(const RmsNormTask& task, size_t row_begin, size_t row_end) {
  for (size_t row = row_begin; row < row_end; ++row) {
    const float* x = task.x + row * task.x_stride;
    float* out = task.out + row * task.out_stride;
    rms_norm_row<Lanes>(x, task.weight, task.eps, task.num_columns, out);
  }
}

}  // namespace
}  // namespace millrace
