#include "kernels/lanes_avx2.h"
#include "kernels/linear_bfloat16_lanes.h"
#include "kernels/linear_kernel.h"
#include "kernels/linear_lanes.h"
#include "kernels/packed_bfloat16_avx2.h"

namespace millrace {
namespace {

// 16 registers, two to a panel: 2 x 3 sums take 12, a panel of weights 2 and an input 1.
struct TileShape {
  static constexpr size_t kTokensMax = 3;
  static constexpr size_t tile_tokens_for(size_t) { return kTokensMax; }
  static constexpr size_t panels_for(size_t num_tokens) { return num_tokens == 1 ? 4 : 2; }
};

// The same, or 1 x 6 sums, which take fewer loads of weights.
struct UnpackedShape {
  static constexpr size_t kTokensMax = 6;
  static constexpr size_t panels_for(size_t num_tokens) { return num_tokens <= 3 ? 2 : 1; }
};

}  // namespace

template <class Weight>
void linear_avx2(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  linear_lanes<Avx2Lanes, TileShape, EachInput<Avx2Lanes, Weight>>(task, panel_begin, panel_end);
}
template <>
void linear_avx2<BFloat16>(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  if (task.num_tokens == 1) {
    run_one_token<Avx2Lanes>(task, panel_begin, panel_end, multiply_one_token);
  } else {
    linear_unpacked<Avx2Lanes, UnpackedShape>(task, panel_begin, panel_end, unpack_blocks);
  }
}

template void linear_avx2<float>(const LinearTask&, size_t, size_t);
template void linear_avx2<Float16>(const LinearTask&, size_t, size_t);

}  // namespace millrace
