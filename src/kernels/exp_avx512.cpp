#include "kernels/exp_kernel.h"
#include "kernels/exp_lanes.h"
#include "kernels/lanes_avx512.h"

namespace millrace {

void exp_in_place_avx512(float* values, size_t size) {
  exp_array<Avx512Lanes>(values, size);
}

}  // namespace millrace
