#include "kernels/lanes_avx512.h"
#include "kernels/rms_norm_kernel.h"
#include "kernels/rms_norm_lanes.h"

namespace millrace {

void rms_norm_avx512(const RmsNormTask& task, size_t row_begin, size_t row_end) {
  rms_norm_rows<Avx512Lanes>(task, row_begin, row_end);
}

}  // namespace millrace
