#include "kernels/quantized/dots_avx512_dot.h"
#include "kernels/quantized/linear_quantized_lanes.h"

namespace millrace {

template <class Weights>
void linear_quantized_avx512_dot(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  linear_quantized_lanes<VnniDots, VnniTileShape, Weights>(task, panel_begin, panel_end);
}

template void linear_quantized_avx512_dot<Int8Weights>(const QuantizedTask&, size_t, size_t);
template void linear_quantized_avx512_dot<Int4Weights>(const QuantizedTask&, size_t, size_t);

}  // namespace millrace
