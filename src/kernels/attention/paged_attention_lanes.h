// paged_attention on sixteen lanes: splits, and in each of them tiles of rows. See lanes.h for the
// rules of this file. A Shape gives the tiles: rows_for(num_rows) at once, at most kRowsMax, of
// which each time chunks_for(rows) * 16 positions' scores and dims_for(rows) * 16 dimensions are
// added up.
#pragma once

#include "kernels/attention/attention_products_lanes.h"
#include "kernels/attention/attention_state_lanes.h"
#include "kernels/attention/attention_tile_lanes.h"
#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/lanes.h"

namespace millrace {
namespace {

// Turns up to 16 rows' scores into weights, says how many positions each row sees, and merges the
// sums into the state. Returns what the outputs are merged by, if they are.
template <class Lanes, class Product>
MergeFactors soften_rows(
    const AttentionTile& tile,
    const SplitChunks<Product>& chunks,
    size_t row_begin,
    size_t num_rows,
    float (*scores)[kSplitPositions],
    typename Product::Operand (*weights)[kSplitPositions],
    size_t* counts,
    const StateRows& at
) {
  float maxima[kLanes] = {};
  float sums[kLanes] = {};
  for (size_t row = 0; row < num_rows; ++row) {
    const size_t token = (row_begin + row) / tile.num_heads;
    const size_t seen = tile.first_position + token + 1 - chunks.position;
    counts[row] = seen < kSplitPositions ? seen : kSplitPositions;
    maxima[row] = largest_score<Lanes>(scores[row], counts[row]);
    sums[row] = soften<Lanes, Product>(scores[row], counts[row], maxima[row], weights[row]);
  }
  if (!chunks.is_first) return merge_sums<Lanes>(at, maxima, sums, num_rows);
  set_sums(at, maxima, sums, num_rows);
  return {};
}

template <class Lanes, class Product, class Shape, size_t kRows>
void attend_rows(
    const AttentionTile& tile, const SplitChunks<Product>& chunks, size_t row_begin, float* state
) {
  using Operand = typename Product::Operand;
  constexpr size_t kChunks = Shape::chunks_for(kRows);
  static_assert(kChunksPerSplit % kChunks == 0);
  alignas(64) float scores[kRows][kSplitPositions];
  alignas(64) Operand weights[kRows][kSplitPositions];
  const bool is_asking = row_begin == 0;  // the rows that follow find it in the cache
  const Operand* queries = static_cast<const Operand*>(tile.queries) + row_begin * tile.head_dim;
  auto values_ahead = lines_of<Product>(tile, chunks.values, kLanes);
  for (size_t i = 0; i * kLanes < chunks.num_positions; i += kChunks) {
    score_tile<Lanes, Product, kRows, kChunks>(
        tile, chunks.keys + i, queries, is_asking ? &values_ahead : nullptr, &scores[0][i * kLanes]
    );
  }

  auto keys_ahead = lines_of<Product>(tile, chunks.next_keys, tile.block_size);
  RowsOfSplit<Product, kRows> rows = {chunks, weights, {}, {}, is_asking ? &keys_ahead : nullptr};
  const StateRows at = state_rows(tile, row_begin, state);
  rows.factors =
      soften_rows<Lanes, Product>(tile, chunks, row_begin, kRows, scores, weights, rows.counts, at);

  size_t dim = 0;
  for (; dim + Shape::dims_for(kRows) * kLanes <= tile.head_dim;
       dim += Shape::dims_for(kRows) * kLanes) {
    value_tile<Lanes, Product, kRows, Shape::dims_for(kRows), false>(tile, rows, dim, at.outputs);
  }
  for (; dim + kLanes <= tile.head_dim; dim += kLanes) {
    value_tile<Lanes, Product, kRows, 1, false>(tile, rows, dim, at.outputs);
  }
  if (dim < tile.head_dim) {
    value_tile<Lanes, Product, kRows, 1, true>(tile, rows, dim, at.outputs);
  }
}

// attend_rows for a number of rows up to kRows.
template <class Lanes, class Product, class Shape, size_t kRows = Shape::kRowsMax>
void attend_row_tile(
    const AttentionTile& tile,
    const SplitChunks<Product>& chunks,
    size_t row_begin,
    size_t num_rows,
    float* state
) {
  if constexpr (kRows > 1) {
    if (num_rows < kRows) {
      return attend_row_tile<Lanes, Product, Shape, kRows - 1>(
          tile, chunks, row_begin, num_rows, state
      );
    }
  }
  attend_rows<Lanes, Product, Shape, kRows>(tile, chunks, row_begin, state);
}

// Calls attend(chunks, row_begin, num_rows, state) for each split and some rows at a time: at most
// rows_max, as equal as can be.
template <class Product, class Attend>
[[gnu::always_inline]] inline void for_each_row_tile(
    const AttentionTile& tile,
    size_t split_begin,
    size_t split_end,
    float* results,
    size_t rows_max,
    const Attend& attend
) {
  const size_t num_rows = tile.num_tokens * tile.num_heads;
  SplitChunks<Product> both[2];
  find_chunks(tile, split_begin, both[split_begin % 2]);
  for (size_t split = split_begin; split < split_end; ++split) {
    SplitChunks<Product>& chunks = both[split % 2];
    SplitChunks<Product>& next = both[(split + 1) % 2];
    const bool is_last = split + 1 == split_end;
    if (!is_last) {
      find_chunks(tile, split + 1, next);
    } else if (tile.next != nullptr) {
      find_chunks(*tile.next, tile.next_split, next);
    }
    chunks.next_keys = is_last && tile.next == nullptr ? chunks.keys : next.keys;
    chunks.is_first = split == 0 || split_begin > 0;
    size_t row = first_row_of(tile, split);
    for (size_t num_tiles = (num_rows - row + rows_max - 1) / rows_max; num_tiles > 0;
         --num_tiles) {
      const size_t count = (num_rows - row + num_tiles - 1) / num_tiles;
      attend(chunks, row, count, results);
      row += count;
    }
    if (split_begin > 0) results += num_rows * (2 + tile.head_dim);
  }
}

template <class Lanes, class Product, class Shape>
void attend_lanes(const AttentionTile& tile, size_t split_begin, size_t split_end, float* results) {
  encode_queries<Lanes, Product>(tile);
  const size_t rows_max = Shape::rows_for(tile.num_tokens * tile.num_heads);
  const auto attend =
      [&](const SplitChunks<Product>& chunks, size_t row_begin, size_t num_rows, float* state) {
        attend_row_tile<Lanes, Product, Shape>(tile, chunks, row_begin, num_rows, state);
      };
  for_each_row_tile<Product>(tile, split_begin, split_end, results, rows_max, attend);
}

}  // namespace
}  // namespace millrace
