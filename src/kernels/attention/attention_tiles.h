// How the attention of a batch is cut into parts for the threads. Each thread walks the same tiles
// in the same order and takes those whose costs lie in its share, so nothing is stored. Where a
// tile is cut changes no bit of its result (paged_attention.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/attention/paged_attention_kernel.h"

namespace millrace {

// Some tokens of a sequence and one KV head.
struct TileOfBatch {
  size_t sequence = 0;
  size_t kv_head = 0;
  size_t token_begin = 0;  // in the batch
  size_t num_tokens = 0;
  size_t num_rows = 0;
  size_t num_splits = 0;
  uint64_t cost_begin = 0;  // of all tiles before it
  uint64_t cost = 0;
};

class AttentionTiles {
 public:
  struct Options {
    std::span<const int32_t> positions;   // [num_tokens]
    std::span<const int32_t> cu_seqlens;  // [num_sequences + 1]
    size_t num_kv_heads = 0;
    size_t num_heads_per_kv_head = 0;
    size_t num_threads = 0;
    // Results of a row in a split that a thread can keep: those of a tile that it does not begin.
    size_t num_kept_rows_max = 0;
  };
  explicit AttentionTiles(const Options& options);

  // Tokens of a tile: rows in multiples of what the widest kernels take at once (6), at least 18,
  // so that what is read of K and V serves many.
  static size_t tokens_per_tile(size_t num_heads_per_kv_head);

  // Calls visit(tile, split_begin, split_end) for what `thread` computes, in order. Of all threads
  // together: each split of each tile once.
  template <class Visit>
  void for_each_part(size_t thread, const Visit& visit) const;

  // The first split of a tile that belongs to `thread` or a later one; num_splits if none.
  size_t first_split(const TileOfBatch& tile, size_t thread) const;

 private:
  TileOfBatch tile_at(size_t sequence, size_t token_begin) const;
  template <class Visit>
  void for_each_tile(size_t sequence, const Visit& visit) const;
  uint64_t sequence_cost(size_t sequence) const;
  uint64_t share_begin(size_t thread) const;

  Options options_;
  uint64_t cost_ = 0;
};

template <class Visit>
void AttentionTiles::for_each_tile(size_t sequence, const Visit& visit) const {
  const auto end = static_cast<size_t>(options_.cu_seqlens[sequence + 1]);
  auto token = static_cast<size_t>(options_.cu_seqlens[sequence]);
  while (token < end) {
    const TileOfBatch tile = tile_at(sequence, token);
    visit(tile);
    token += tile.num_tokens;
  }
}

template <class Visit>
void AttentionTiles::for_each_part(size_t thread, const Visit& visit) const {
  const uint64_t end = share_begin(thread + 1);
  uint64_t cost = 0;
  for (size_t sequence = 0; sequence + 1 < options_.cu_seqlens.size() && cost < end; ++sequence) {
    for (size_t kv_head = 0; kv_head < options_.num_kv_heads; ++kv_head) {
      for_each_tile(sequence, [&](TileOfBatch tile) {
        tile.kv_head = kv_head;
        tile.cost_begin = cost;
        cost += tile.cost;
        const size_t split_begin = first_split(tile, thread);
        const size_t split_end = first_split(tile, thread + 1);
        if (split_begin < split_end) visit(tile, split_begin, split_end);
      });
    }
  }
}

}  // namespace millrace
