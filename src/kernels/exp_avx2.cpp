#include "kernels/exp_kernel.h"
#include "kernels/exp_lanes.h"
#include "kernels/lanes_avx2.h"

namespace millrace {

void exp_in_place_avx2(float* values, size_t size) {
  exp_array<Avx2Lanes>(values, size);
}

}  // namespace millrace
