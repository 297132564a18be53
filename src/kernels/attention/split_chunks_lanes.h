// Where the keys and values of a split lie, and how memory is asked for them: the processor's own
// prefetching begins anew with each block. See lanes.h for the rules of this file,
// attention_products_lanes.h for what a Product is.
#pragma once

#include "kernels/attention/attention_products_lanes.h"
#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/lanes.h"

namespace millrace {
namespace {

constexpr size_t kChunksPerSplit = kSplitPositions / kLanes;

// Where the chunks of 16 positions of a split lie.
template <class Product>
struct SplitChunks {
  using Element = typename Product::Element;
  const Element* keys[kChunksPerSplit];
  const Element* values[kChunksPerSplit];
  bool is_first;                    // whether there is no state to merge them into
  const Element* const* next_keys;  // of the split that comes after this one; its own if none does
  size_t position;                  // of the first
  size_t num_positions;             // up to the tile's last token
};

template <class Product>
void find_chunks(const AttentionTile& tile, size_t split, SplitChunks<Product>& chunks) {
  using Element = typename Product::Element;
  chunks.position = split * kSplitPositions;
  const size_t left = tile.first_position + tile.num_tokens - chunks.position;
  chunks.num_positions = left < kSplitPositions ? left : kSplitPositions;
  size_t block = chunks.position / tile.block_size;
  size_t offset = chunks.position % tile.block_size;
  for (size_t i = 0; i < kChunksPerSplit; ++i) {
    const size_t begin = static_cast<size_t>(tile.blocks[block]) * tile.block_stride;
    chunks.keys[i] = static_cast<const Element*>(tile.keys) + begin + offset * Product::kDepth;
    chunks.values[i] = static_cast<const Element*>(tile.values) + begin + offset * tile.head_dim;
    // Those past the last chunk repeat it: tiles of several read them, and drop their scores.
    if ((i + 1) * kLanes >= chunks.num_positions) continue;
    offset += kLanes;
    if (offset == tile.block_size) {
      offset = 0;
      ++block;
    }
  }
}

// Lines of some chunks, asked of memory in the order in which they lie, whatever the order of the
// work: one stream at a time is what comes fastest.
template <class Product>
struct LinesAhead {
  using Element = typename Product::Element;
  const Element* const* chunk;
  const Element* line;
  size_t stride;      // elements from a line to the next
  size_t lines_each;  // of a chunk
  size_t lines_left;  // of this one
  bool is_soon;       // see AttentionTile

  [[gnu::always_inline]] void ask_for_next() {
    if (lines_left == 0) {
      line = *++chunk;
      lines_left = lines_each;
    }
    is_soon ? __builtin_prefetch(line, 0, 3) : __builtin_prefetch(line, 0, 2);
    line += stride;
    --lines_left;
  }
};

// `width`: the positions of a row of keys, or the dimensions of a line of values.
template <class Product>
LinesAhead<Product> lines_of(
    const AttentionTile& tile, const typename Product::Element* const* chunks, size_t width
) {
  const size_t num_lines = tile.head_dim / Product::kDepth;
  return {chunks, *chunks, width * Product::kDepth, num_lines, num_lines, tile.is_hinted_soon};
}

}  // namespace
}  // namespace millrace
