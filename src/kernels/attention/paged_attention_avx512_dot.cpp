#include "kernels/attention/attention_products_avx512_dot.h"
#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/attention/paged_attention_lanes.h"

namespace millrace {
namespace {

// 32 registers: 6 x 4 sums, four keys or values and a query take 29, 8 x 2 sums 19. A dot product
// takes six cycles, and at most two start in each: up to two rows take eight chunks. What a token's
// heads read at once is read once: up to eight share a KV head in most models.
struct TileShape {
  static constexpr size_t kRowsMax = 8;
  static constexpr size_t rows_for(size_t num_rows) { return num_rows <= 8 ? 8 : 6; }
  static constexpr size_t chunks_for(size_t num_rows) {
    return num_rows <= 2 ? 8 : dims_for(num_rows);
  }
  static constexpr size_t dims_for(size_t num_rows) { return num_rows <= 6 ? 4 : 2; }
};

}  // namespace

void attend_avx512_dot(
    const AttentionTile& tile, size_t split_begin, size_t split_end, float* results
) {
  attend_lanes<Avx512Lanes, PairDots, TileShape>(tile, split_begin, split_end, results);
}

}  // namespace millrace
