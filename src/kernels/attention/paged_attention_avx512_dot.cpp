#include "kernels/attention/attention_products_avx512_dot.h"
#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/attention/paged_attention_lanes.h"

namespace millrace {
namespace {

// A dot product takes six cycles, and one or two start in each, by the processor: so many sums must
// be in the making. What a token's heads read at once is read once: up to eight share a KV head in
// most models. More rows than that are of several tokens; what their first six read is then in the
// cache. 32 registers: 6 x 4 sums, four keys or values and a query take 29.
struct TileShape {
  static constexpr size_t kRowsMax = 8;
  static constexpr size_t rows_for(size_t num_rows) { return num_rows <= 8 ? 8 : 6; }
};

// One starts: chunk after chunk, and values in one pass, are read in the order of memory
// (docs/decisions/0025). 7 x 4 sums and four values take 32 registers; a few of 8 x 4 have none.
struct SingleIssueShape : TileShape {
  static constexpr size_t chunks_for(size_t num_rows) {
    return num_rows <= 2 ? 8 : num_rows <= 6 ? 4 : 1;
  }
  static constexpr size_t dims_for(size_t) { return 4; }
};

// Two start: 8 x 2 sums, two keys or values and a query take 19.
struct DualIssueShape : TileShape {
  static constexpr size_t chunks_for(size_t num_rows) {
    return num_rows <= 2 ? 8 : dims_for(num_rows);
  }
  static constexpr size_t dims_for(size_t num_rows) { return num_rows <= 6 ? 4 : 2; }
};

}  // namespace

void attend_avx512_dot(
    const AttentionTile& tile, size_t split_begin, size_t split_end, float* results
) {
  // Zen 5 starts two, and of those whose best_isa() this is it alone has hints.
  if (tile.is_hinted_soon) {
    attend_lanes<Avx512Lanes, PairDots, DualIssueShape>(tile, split_begin, split_end, results);
  } else {
    attend_lanes<Avx512Lanes, PairDots, SingleIssueShape>(tile, split_begin, split_end, results);
  }
}

}  // namespace millrace
