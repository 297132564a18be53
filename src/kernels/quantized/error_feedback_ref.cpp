#include <cmath>

#include "kernels/lanes.h"
#include "kernels/quantized/error_feedback_kernel.h"

namespace millrace {

void carry_errors_reference(
    const float* errors, size_t num_errors, const float* factors, size_t stride, float* carried
) {
  for (size_t c = 0; c < kFeedbackColumns; ++c) {
    for (size_t row = 0; row < kLanes; ++row) {
      float sum = 0.0F;
      for (size_t j = 0; j < num_errors; ++j) {
        sum = std::fma(factors[c * stride + j], errors[j * kLanes + row], sum);
      }
      carried[c * kLanes + row] = sum;
    }
  }
}

}  // namespace millrace
