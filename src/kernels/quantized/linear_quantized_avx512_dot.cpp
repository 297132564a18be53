#include "kernels/quantized/dots_avx512.h"
#include "kernels/quantized/linear_quantized_lanes.h"

namespace millrace {
namespace {

struct VnniDots : Avx512DotsBase {
  [[gnu::always_inline]] static Sums dot(Weights weights, Inputs inputs, Sums sums) {
    return _mm512_dpbusd_epi32(sums, weights, inputs);
  }
};

// 32 registers: 4 x 6 sums, 4 panels of weights and an input. Few tokens take 8 panels, because a
// product takes four cycles and one or two start in each.
struct TileShape {
  static constexpr size_t kTokensMax = 6;
  static constexpr size_t panels_for(size_t num_tokens) { return num_tokens <= 2 ? 8 : 4; }
};

}  // namespace

template <class Weights>
void linear_quantized_avx512_dot(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  linear_quantized_lanes<VnniDots, TileShape, Weights>(task, panel_begin, panel_end);
}

template void linear_quantized_avx512_dot<Int8Weights>(const QuantizedTask&, size_t, size_t);
template void linear_quantized_avx512_dot<Int4Weights>(const QuantizedTask&, size_t, size_t);

}  // namespace millrace
