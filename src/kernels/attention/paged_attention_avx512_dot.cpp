#include "kernels/attention/attention_products_avx512_dot.h"
#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/attention/paged_attention_lanes.h"

namespace millrace {
namespace {

// 32 registers: 6 x 4 sums, four keys or values and a query take 29. A dot product takes six
// cycles, and at most two start in each: up to two rows take eight chunks.
struct TileShape {
  static constexpr size_t kRowsMax = 6;
  static constexpr size_t kDims = 4;
  static constexpr size_t chunks_for(size_t num_rows) { return num_rows <= 2 ? 8 : 4; }
};

}  // namespace

void attend_avx512_dot(
    const AttentionTile& tile, size_t split_begin, size_t split_end, float* results
) {
  attend_lanes<Avx512Lanes, PairDots, TileShape>(tile, split_begin, split_end, results);
}

}  // namespace millrace
