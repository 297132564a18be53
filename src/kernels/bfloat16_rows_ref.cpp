#include "kernels/bfloat16_rows_kernel.h"

namespace millrace {
namespace {

void put(BFloat16 value, BFloat16& out) {
  out = value;
}
void put(BFloat16 value, float& out) {
  out = to_float(value);
}

}  // namespace

template <class Out>
void round_row_reference(const float* x, size_t size, size_t size_padded, Out* out) {
  for (size_t i = 0; i < size_padded; ++i) put(to_bfloat16(i < size ? x[i] : 0.0F), out[i]);
}

template void round_row_reference<BFloat16>(const float*, size_t, size_t, BFloat16*);
template void round_row_reference<float>(const float*, size_t, size_t, float*);

}  // namespace millrace
