#include "kernels/attention/attention_tiles.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/lanes.h"

namespace millrace {
namespace {

// Reading K and V of a position costs about what the products of so many rows with it do.
constexpr uint64_t kReadCostInRows = 4;

}  // namespace

AttentionTiles::AttentionTiles(const Options& options) : options_(options) {
  for (size_t sequence = 0; sequence + 1 < options.cu_seqlens.size(); ++sequence) {
    cost_ += sequence_cost(sequence);
  }
}

size_t AttentionTiles::tokens_per_tile(size_t num_heads_per_kv_head) {
  return 6 * std::max<size_t>(1, 4 / num_heads_per_kv_head);
}

TileOfBatch AttentionTiles::tile_at(size_t sequence, size_t token_begin) const {
  const auto end = static_cast<size_t>(options_.cu_seqlens[sequence + 1]);
  const size_t num_tokens =
      std::min(tokens_per_tile(options_.num_heads_per_kv_head), end - token_begin);
  const size_t num_rows = num_tokens * options_.num_heads_per_kv_head;
  const auto context = static_cast<size_t>(options_.positions[token_begin]) + num_tokens;
  return {
      .sequence = sequence,
      .token_begin = token_begin,
      .num_tokens = num_tokens,
      .num_rows = num_rows,
      .num_splits = div_ceil(context, kSplitPositions),
      .cost = (num_rows + kReadCostInRows) * round_up(context, kLanes),
  };
}

uint64_t AttentionTiles::sequence_cost(size_t sequence) const {
  uint64_t cost = 0;
  for_each_tile(sequence, [&](const TileOfBatch& tile) { cost += tile.cost; });
  return cost * options_.num_kv_heads;
}

// Not cost_ * thread / num_threads, whose product could overflow.
uint64_t AttentionTiles::share_begin(size_t thread) const {
  const uint64_t num_threads = options_.num_threads;
  return cost_ / num_threads * thread + cost_ % num_threads * thread / num_threads;
}

size_t AttentionTiles::first_split(const TileOfBatch& tile, size_t thread) const {
  const uint64_t begin = share_begin(thread);
  if (begin <= tile.cost_begin) return 0;
  if (begin >= tile.cost_begin + tile.cost) return tile.num_splits;
  const uint64_t split_cost = (tile.num_rows + kReadCostInRows) * kSplitPositions;
  const size_t nearest = (begin - tile.cost_begin + split_cost / 2) / split_cost;
  if (nearest == 0) return 0;
  // The threads from this one on have to keep the results of what is left.
  const size_t num_kept_max = std::min(options_.num_kept_rows_max / tile.num_rows, tile.num_splits);
  return std::min(std::max(nearest, tile.num_splits - num_kept_max), tile.num_splits);
}

}  // namespace millrace
