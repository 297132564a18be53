#include "kernels/attention/attention_products_lanes.h"
#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/attention/paged_attention_lanes.h"
#include "kernels/lanes_avx2.h"

namespace millrace {
namespace {

// 16 registers, two to sixteen lanes: 6 x 1 sums take 12, a key or value 2 and a query 1. Rows
// rather than positions side by side, so that each key and value is widened for several.
struct TileShape {
  static constexpr size_t kRowsMax = 6;
  static constexpr size_t rows_for(size_t) { return kRowsMax; }
  static constexpr size_t dims_for(size_t num_rows) { return num_rows <= 2 ? 2 : 1; }
  static constexpr size_t chunks_for(size_t num_rows) {
    return num_rows == 1 ? 4 : num_rows == 2 ? 2 : 1;
  }
};

}  // namespace

template <class Kv>
void attend_avx2(const AttentionTile& tile, size_t split_begin, size_t split_end, float* results) {
  attend_lanes<Avx2Lanes, EachElement<Avx2Lanes, Kv>, TileShape>(
      tile, split_begin, split_end, results
  );
}
template <>
void attend_avx2<BFloat16>(
    const AttentionTile& tile, size_t split_begin, size_t split_end, float* results
) {
  attend_lanes<Avx2Lanes, EachOfPair<Avx2Lanes>, TileShape>(tile, split_begin, split_end, results);
}

void merge_split_avx2(const AttentionTile& tile, size_t split, const float* part, float* state) {
  merge_split_lanes<Avx2Lanes>(tile, split, part, state);
}

void finish_tile_avx2(const AttentionTile& tile, const float* state) {
  finish_tile_lanes<Avx2Lanes>(tile, state);
}

template void attend_avx2<float>(const AttentionTile&, size_t, size_t, float*);
template void attend_avx2<Float16>(const AttentionTile&, size_t, size_t, float*);

}  // namespace millrace
