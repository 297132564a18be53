#include "kernels/bfloat16_rows_kernel.h"
#include "kernels/bfloat16_rows_lanes.h"
#include "kernels/lanes_avx512.h"

namespace millrace {

template <class Out>
void round_row_avx512(const float* x, size_t size, size_t size_padded, Out* out) {
  round_row<Avx512Lanes>(x, size, size_padded, out);
}

template void round_row_avx512<BFloat16>(const float*, size_t, size_t, BFloat16*);
template void round_row_avx512<float>(const float*, size_t, size_t, float*);

}  // namespace millrace
