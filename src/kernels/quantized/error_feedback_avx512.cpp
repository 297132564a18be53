#include "kernels/lanes_avx512.h"
#include "kernels/quantized/error_feedback_kernel.h"
#include "kernels/quantized/error_feedback_lanes.h"

namespace millrace {

void carry_errors_avx512(
    const float* errors, size_t num_errors, const float* factors, size_t stride, float* carried
) {
  carry_errors<Avx512Lanes>(errors, num_errors, factors, stride, carried);
}

}  // namespace millrace
