#include "kernels/attention/attention_products_lanes.h"
#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/attention/paged_attention_lanes.h"
#include "kernels/lanes_avx512.h"

namespace millrace {
namespace {

// 32 registers: 6 x 4 sums, four keys or values and a query take 29, 8 x 2 sums 19. What a token's
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

template <class Kv>
void attend_avx512(
    const AttentionTile& tile, size_t split_begin, size_t split_end, float* results
) {
  attend_lanes<Avx512Lanes, EachElement<Avx512Lanes, Kv>, TileShape>(
      tile, split_begin, split_end, results
  );
}
template <>
void attend_avx512<BFloat16>(
    const AttentionTile& tile, size_t split_begin, size_t split_end, float* results
) {
  attend_lanes<Avx512Lanes, EachOfPair<Avx512Lanes>, TileShape>(
      tile, split_begin, split_end, results
  );
}

void merge_split_avx512(const AttentionTile& tile, size_t split, const float* part, float* state) {
  merge_split_lanes<Avx512Lanes>(tile, split, part, state);
}

void finish_tile_avx512(const AttentionTile& tile, const float* state) {
  finish_tile_lanes<Avx512Lanes>(tile, state);
}

template void attend_avx512<float>(const AttentionTile&, size_t, size_t, float*);
template void attend_avx512<Float16>(const AttentionTile&, size_t, size_t, float*);

}  // namespace millrace
