#include <array>
#include <cmath>

#include "kernels/lanes.h"
#include "kernels/rms_norm_kernel.h"

namespace millrace {

void rms_norm_row_reference(
    const float* x, const float* weight, float eps, size_t num_columns, float* out
) {
  std::array<float, kLanes> sums = {};
  for (size_t i = 0; i < num_columns; ++i)
    sums[i % kLanes] = std::fma(x[i], x[i], sums[i % kLanes]);
  for (size_t half = kLanes / 2; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) sums[i] += sums[i + half];
  }
  const float mean = sums[0] / static_cast<float>(num_columns);
  const float factor = 1.0F / std::sqrt(mean + eps);
  for (size_t i = 0; i < num_columns; ++i) out[i] = x[i] * factor * weight[i];
}

void rms_norm_reference(const RmsNormTask& task, size_t row_begin, size_t row_end) {
  for (size_t row = row_begin; row < row_end; ++row) {
    rms_norm_row_reference(
        task.x + row * task.x_stride,
        task.weight,
        task.eps,
        task.num_columns,
        task.out + row * task.out_stride
    );
  }
}

}  // namespace millrace
