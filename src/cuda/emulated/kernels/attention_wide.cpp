// paged_attention_wide() without wgmma: its tiles are dealt to paged_attention(), whose bits are
// the same, so that the model runner has wide tiles in emulation too.
#include "cuda/kernels/attention_wide.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/check.h"
#include "cuda/emulated/work.h"
#include "cuda/kernels/operand_tiles.h"

namespace millrace::cuda {
namespace {

// In tiles of 16 rows. A device takes none behind the first tile of no rows.
std::vector<AttentionTile> dealt(std::span<const AttentionTile> wide_tiles) {
  constexpr auto kRows = static_cast<int32_t>(kAttentionTileRows);
  std::vector<AttentionTile> tiles;
  bool are_over = false;
  for (const AttentionTile& wide : wide_tiles) {
    CHECK(wide.num_rows <= static_cast<int32_t>(kWideAttentionRows), "a wide tile's rows");
    are_over = are_over || wide.num_rows == 0;
    CHECK(!are_over || wide.num_rows == 0, "tiles of no rows come last");
    for (int32_t row = 0; row < wide.num_rows; row += kRows) {
      tiles.push_back({wide.sequence, wide.first_row + row, std::min(kRows, wide.num_rows - row)});
    }
  }
  return tiles;
}

}  // namespace

bool is_for_attention_wide(size_t head_dim) {
  return is_wide_head_dim(head_dim);
}

void paged_attention_wide(StreamHandle stream, const PagedAttentionArgs& args) {
  if (args.num_tiles == 0) return;
  check_attention_args(args);
  CHECK(is_for_attention_wide(args.cache.head_dim), "heads of 64 or 128 dimensions");
  CHECK(args.num_tokens > kFewTokens, "many tokens");
  run_or_record(stream, [args] {
    const std::vector<AttentionTile> tiles = dealt({args.tiles, args.num_tiles});
    PagedAttentionArgs of_walk = args;
    of_walk.tiles = tiles.data();
    of_walk.num_tiles = tiles.size();
    paged_attention({}, of_walk);
  });
}

}  // namespace millrace::cuda
