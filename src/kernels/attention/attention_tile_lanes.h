// The products of attention on sixteen lanes: tiles of rows x positions for the scores, of rows x
// dimensions for the values, so that what is read of K and V serves several rows. Memory is asked
// for one half of the work ahead (values while scores are computed, the next keys while values are
// added up), see split_chunks_lanes.h. See lanes.h for the rules of this file,
// attention_products_lanes.h for what a Product is.
#pragma once

#include "kernels/attention/attention_products_lanes.h"
#include "kernels/attention/attention_state_lanes.h"
#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/attention/split_chunks_lanes.h"
#include "kernels/lanes.h"
#include "kernels/token_rows_lanes.h"

namespace millrace {
namespace {

// Where part kPart of a step reads its vectors. Each part anew: what a tile's sums leave of the
// registers does not hold one part's while it is widened for the next.
template <size_t kPart, class Element>
[[gnu::always_inline]] inline const Element* source_of(const Element* vectors) {
  if constexpr (kPart > 0) forget_origin(vectors);
  return vectors;
}

// Adds the products of kVectors vectors with the operands of kRows rows, `stride` apart.
template <class Lanes, class Product, size_t kPart, size_t kRows, size_t kVectors, class Vector>
[[gnu::always_inline]] inline void add_products(
    const Vector (&vectors)[kVectors],
    const typename Product::Operand* operands,
    size_t stride,
    Lanes (&sums)[kRows][kVectors]
) {
  // An operand has a register, unless it serves one product or the sums leave none.
  constexpr size_t kRegisters = 32;
  constexpr bool kReads =
      Product::kCanRead && (kVectors == 1 || (kRows + 1) * kVectors >= kRegisters);
  if constexpr (kReads) {
#pragma GCC unroll 8
    for (size_t i = 0; i < kVectors; ++i) {
#pragma GCC unroll 8
      for (size_t row = 0; row < kRows; ++row) {
        sums[row][i] =
            Product::template add_read<kPart>(sums[row][i], vectors[i], operands + row * stride);
      }
    }
  } else {
#pragma GCC unroll 8
    for (size_t row = 0; row < kRows; ++row) {
      const auto operand = Product::template operand<kPart>(operands + row * stride);
#pragma GCC unroll 8
      for (size_t i = 0; i < kVectors; ++i) {
        sums[row][i] = Product::add(sums[row][i], vectors[i], operand);
      }
    }
  }
}

template <class Lanes, class Product, size_t kPart, size_t kRows, size_t kChunks>
[[gnu::always_inline]] inline void add_scores(
    const typename Product::Element* const* keys,
    size_t offset,
    const typename Product::Operand* queries,
    size_t head_dim,
    Lanes (&sums)[kRows][kChunks]
) {
  decltype(Product::template vector<kPart>(keys[0])) vectors[kChunks];
#pragma GCC unroll 8
  for (size_t i = 0; i < kChunks; ++i) {
    vectors[i] = Product::template vector<kPart>(source_of<kPart>(keys[i] + offset));
  }
  add_products<Lanes, Product, kPart>(vectors, queries, head_dim, sums);
}

// Scores of kRows rows against kChunks * 16 positions; `scores`: [kRows][kSplitPositions]. As many
// lines are asked for meanwhile, unless `ahead` is null.
template <class Lanes, class Product, size_t kRows, size_t kChunks>
void score_tile(
    const AttentionTile& tile,
    const typename Product::Element* const* keys,
    const typename Product::Operand* queries,
    LinesAhead<Product>* ahead,
    float* scores
) {
  Lanes sums[kRows][kChunks];
#pragma GCC unroll 8
  for (size_t row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (size_t i = 0; i < kChunks; ++i) sums[row][i] = Lanes::zero();
  }
  for (size_t d = 0; d < tile.head_dim; d += Product::kDepth) {
    const size_t offset = d * tile.block_size;
    if (ahead != nullptr) {
#pragma GCC unroll 8
      for (size_t i = 0; i < kChunks; ++i) ahead->ask_for_next();
    }
    add_scores<Lanes, Product, 0>(keys, offset, queries + d, tile.head_dim, sums);
    if constexpr (Product::kParts > 1) {
      add_scores<Lanes, Product, 1>(keys, offset, queries + d, tile.head_dim, sums);
    }
  }
#pragma GCC unroll 8
  for (size_t row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (size_t i = 0; i < kChunks; ++i) {
      Lanes::store(scores + row * kSplitPositions + i * kLanes, sums[row][i]);
    }
  }
}

// Some rows of a tile in one split.
template <class Product, size_t kRows>
struct RowsOfSplit {
  const SplitChunks<Product>& chunks;
  const typename Product::Operand (*weights)[kSplitPositions];  // [kRows]
  size_t counts[kRows];        // positions that each row sees, ascending
  MergeFactors factors;        // unless the split is the first
  LinesAhead<Product>* ahead;  // of the keys of the next split, or null
};

template <class Lanes, class Product, size_t kPart, size_t kRows, size_t kDims, bool kPartial>
[[gnu::always_inline]] inline void add_values(
    const typename Product::Element* values,
    size_t rest,
    const typename Product::Operand* weights,
    Lanes (&sums)[kRows][kDims]
) {
  decltype(Product::template vector<kPart>(values)) vectors[kDims];
#pragma GCC unroll 8
  for (size_t i = 0; i < kDims; ++i) {
    const auto* source = source_of<kPart>(values + i * kLanes * Product::kDepth);
    vectors[i] = kPartial ? Product::template vector_first<kPart>(source, rest)
                          : Product::template vector<kPart>(source);
  }
  add_products<Lanes, Product, kPart>(vectors, weights, kSplitPositions, sums);
}

// One step where some rows see nothing any more, or not the second position of a pair: what they do
// not see is another token's, or not even written.
template <class Lanes, class Product, size_t kPart, size_t kRows, size_t kDims, bool kPartial>
[[gnu::always_inline]] inline void add_last_values(
    const typename Product::Element* values,
    size_t rest,
    size_t position,
    const RowsOfSplit<Product, kRows>& rows,
    Lanes (&sums)[kRows][kDims]
) {
  decltype(Product::template vector<kPart>(values)) vectors[kDims];
#pragma GCC unroll 8
  for (size_t i = 0; i < kDims; ++i) {
    const typename Product::Element* source = values + i * kLanes * Product::kDepth;
    vectors[i] = kPartial ? Product::template vector_first<kPart>(source, rest)
                          : Product::template vector<kPart>(source);
  }
#pragma GCC unroll 8
  for (size_t row = kRows; row > 0; --row) {
    // Those before see no more than this one.
    if (position >= rows.counts[row - 1]) break;
    if (position + Product::kDepth > rows.counts[row - 1]) {
#pragma GCC unroll 8
      for (size_t i = 0; i < kDims; ++i) {
        vectors[i] = Product::template without_odd<kPart>(vectors[i]);
      }
    }
    const auto operand = Product::template operand<kPart>(&rows.weights[row - 1][position]);
#pragma GCC unroll 8
    for (size_t i = 0; i < kDims; ++i) {
      sums[row - 1][i] = Product::add(sums[row - 1][i], vectors[i], operand);
    }
  }
}

// Dimensions [dim, dim + kDims * 16), or with kPartial [dim, dim + rest), rest < 16.
template <class Lanes, class Product, size_t kRows, size_t kDims, bool kPartial>
void value_tile(
    const AttentionTile& tile, const RowsOfSplit<Product, kRows>& rows, size_t dim, float* outputs
) {
  const size_t rest = tile.head_dim - dim;
  Lanes sums[kRows][kDims];
#pragma GCC unroll 8
  for (size_t row = 0; row < kRows; ++row) {
#pragma GCC unroll 8
    for (size_t i = 0; i < kDims; ++i) sums[row][i] = Lanes::zero();
  }
  const size_t dim_offset = dim * Product::kDepth;
  const size_t num_common = rows.counts[0] / Product::kDepth * Product::kDepth;
  for (size_t begin = 0; begin < num_common; begin += kLanes) {
    const typename Product::Element* values = rows.chunks.values[begin / kLanes] + dim_offset;
    const size_t end = num_common - begin < kLanes ? num_common - begin : kLanes;
    for (size_t j = 0; j < end; j += Product::kDepth) {
      const typename Product::Element* source = values + j * tile.head_dim;
      const typename Product::Operand* weights = &rows.weights[0][begin + j];
      if (!kPartial && rows.ahead != nullptr) {
#pragma GCC unroll 8
        for (size_t i = 0; i < kDims; ++i) rows.ahead->ask_for_next();
      }
      add_values<Lanes, Product, 0, kRows, kDims, kPartial>(source, rest, weights, sums);
      if constexpr (Product::kParts > 1) {
        add_values<Lanes, Product, 1, kRows, kDims, kPartial>(source, rest, weights, sums);
      }
    }
  }
  for (size_t j = num_common; j < rows.counts[kRows - 1]; j += Product::kDepth) {
    const typename Product::Element* source =
        rows.chunks.values[j / kLanes] + dim_offset + j % kLanes * tile.head_dim;
    add_last_values<Lanes, Product, 0, kRows, kDims, kPartial>(source, rest, j, rows, sums);
    if constexpr (Product::kParts > 1) {
      add_last_values<Lanes, Product, 1, kRows, kDims, kPartial>(source, rest, j, rows, sums);
    }
  }
#pragma GCC unroll 8
  for (size_t row = 0; row < kRows; ++row) {
    float* out = outputs + row * tile.head_dim + dim;
#pragma GCC unroll 8
    for (size_t i = 0; i < kDims; ++i) {
      const size_t count = kPartial ? rest : kLanes;
      put_outputs(sums[row][i], rows.chunks.is_first, rows.factors, row, out + i * kLanes, count);
    }
  }
}

}  // namespace
}  // namespace millrace
