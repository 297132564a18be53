// Carrying errors on sixteen lanes, one a row. See lanes.h for the rules of this file.
#pragma once

#include "kernels/lanes.h"
#include "kernels/quantized/error_feedback_kernel.h"

namespace millrace {
namespace {

template <class Lanes>
void carry_errors(
    const float* errors, size_t num_errors, const float* factors, size_t stride, float* carried
) {
  Lanes sums[kFeedbackColumns];
  for (size_t c = 0; c < kFeedbackColumns; ++c) sums[c] = Lanes::zero();
  for (size_t j = 0; j < num_errors; ++j) {
    const Lanes error = Lanes::load(errors + j * kLanes);
    for (size_t c = 0; c < kFeedbackColumns; ++c) {
      sums[c] = Lanes::fma(Lanes::broadcast(factors[c * stride + j]), error, sums[c]);
    }
  }
  for (size_t c = 0; c < kFeedbackColumns; ++c) Lanes::store(carried + c * kLanes, sums[c]);
}

}  // namespace
}  // namespace millrace
