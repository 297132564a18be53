#include "kernels/lanes_avx512.h"
#include "kernels/linear_bfloat16_lanes.h"
#include "kernels/linear_kernel.h"
#include "kernels/linear_lanes.h"
#include "kernels/packed_bfloat16_avx512.h"

namespace millrace {
namespace {

// 32 registers: 4 x 6 sums, 4 panels of weights, and inputs broadcast from memory. A single token
// takes 8 panels, because two multiply-adds start each cycle and each takes four.
struct TileShape {
  static constexpr size_t kTokensMax = 6;
  static constexpr size_t tile_tokens_for(size_t) { return kTokensMax; }
  static constexpr size_t panels_for(size_t num_tokens) { return num_tokens == 1 ? 8 : 4; }
};

// The same. A single token has no more panels: so many are unpacked at once. Every tile loads and
// stores its sums once for each 112 inputs, an eighth of 896.
struct UnpackedShape {
  static constexpr size_t kPanels = 4;
  static constexpr size_t kUnpackedBytes = kUnpackedBytesMax;
  static constexpr size_t kTokensMax = 6;
  static constexpr size_t panels_for(size_t) { return kPanels; }
};

}  // namespace

template <class Weight>
void linear_avx512(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  linear_lanes<Avx512Lanes, TileShape, EachInput<Avx512Lanes, Weight>>(
      task, panel_begin, panel_end
  );
}
template <>
void linear_avx512<BFloat16>(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  linear_unpacked<Avx512Lanes, UnpackedShape>(task, panel_begin, panel_end, unpack_blocks);
}

template void linear_avx512<float>(const LinearTask&, size_t, size_t);
template void linear_avx512<Float16>(const LinearTask&, size_t, size_t);

}  // namespace millrace
