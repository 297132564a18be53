// Rounding to bfloat16 on sixteen lanes. See lanes.h for the rules of this file.
#pragma once

#include "kernels/bfloat16_rows_kernel.h"
#include "kernels/lanes.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

template <class Lanes>
[[gnu::always_inline]] inline void store_rounded(BFloat16* out, Lanes values) {
  Lanes::store(out, values);
}
template <class Lanes>
[[gnu::always_inline]] inline void store_rounded(float* out, Lanes values) {
  BFloat16 rounded[kLanes];
  Lanes::store(rounded, values);
  Lanes::store(out, Lanes::load(rounded));
}

template <class Lanes, class Out>
void round_row(const float* x, size_t size, size_t size_padded, Out* out) {
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) store_rounded(out + i, Lanes::load(x + i));
  if (i < size) {
    Out last[kLanes];
    store_rounded(last, Lanes::load_first(x + i, size - i));
    for (size_t j = 0; i + j < size; ++j) out[i + j] = last[j];
    i = size;
  }
  for (; i < size_padded; ++i) out[i] = Out{};
}

}  // namespace
}  // namespace millrace
