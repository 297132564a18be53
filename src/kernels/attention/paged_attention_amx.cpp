#include <immintrin.h>

#include "kernels/amx_tiles.h"
#include "kernels/attention/attention_products_avx512_dot.h"
#include "kernels/attention/paged_attention_kernel.h"
#include "kernels/attention/paged_attention_lanes.h"

namespace millrace {
namespace {

using Lanes = Avx512Lanes;
using Chunks = SplitChunks<PairDots>;

// What one instruction multiplies: of queries with keys, and of weights with values. A block of the
// cache has 16 positions or more, so a chunk of values is half as high as a tile can be.
constexpr size_t kStepDims = 32;
constexpr size_t kStepPositions = kLanes;

// The registers: 0 .. 3 are sums, as four that do not wait for each other keep the unit busy.
constexpr size_t kSums = 4;
constexpr int kQueryTile = 4;
constexpr int kKeyTile = 5;
constexpr int kWeightTile = 6;
constexpr int kValueTile = 7;

TileShapes shapes_for(size_t num_rows) {
  TileShapes shapes;
  for (size_t tile = 0; tile < kSums; ++tile) shapes.set(tile, num_rows);
  shapes.set(kQueryTile, num_rows);
  shapes.set(kKeyTile, kStepDims / 2);
  shapes.set(kWeightTile, num_rows, kStepPositions * sizeof(BFloat16));
  shapes.set(kValueTile, kStepPositions / 2);
  return shapes;
}

constexpr size_t query_stride(const AttentionTile& tile) {
  return (tile.head_dim + kStepDims - 1) / kStepDims * kStepDims;
}

// Rows that end with zeros up to a whole step.
void encode_query_rows(const AttentionTile& tile) {
  const Lanes scale = Lanes::broadcast(tile.scale);
  auto* out = static_cast<BFloat16*>(tile.queries);
  for (size_t row = 0; row < tile.num_tokens * tile.num_heads; ++row) {
    const float* q =
        tile.q + row / tile.num_heads * tile.q_stride + row % tile.num_heads * tile.head_dim;
    for (size_t d = 0; d < query_stride(tile); d += kLanes, out += kLanes) {
      const size_t rest = d < tile.head_dim ? tile.head_dim - d : 0;
      const Lanes values = rest >= kLanes ? Lanes::load(q + d) : Lanes::load_first(q + d, rest);
      PairDots::store(out, Lanes::mul(values, scale));
    }
  }
}

// Whether none of a chunk's values is infinite or no number.
bool are_finite(const BFloat16* values, size_t size) {
  const __m512i exponent = _mm512_set1_epi16(0x7F80);
  __mmask32 found = 0;
  for (size_t i = 0; i < size; i += 2 * kLanes) {
    const __m512i bits = _mm512_and_si512(_mm512_loadu_si512(values + i), exponent);
    found |= _mm512_cmpeq_epi16_mask(bits, exponent);
  }
  return found == 0;
}

// Up to 16 rows of a tile in one split.
class RowTile {
 public:
  RowTile(
      const AttentionTile& tile,
      const Chunks& chunks,
      size_t row_begin,
      size_t num_rows,
      float* state
  )
      : tile_(tile),
        chunks_(chunks),
        row_begin_(row_begin),
        num_rows_(num_rows),
        num_chunks_((chunks.num_positions + kLanes - 1) / kLanes),
        is_asking_(row_begin == 0),
        at_(state_rows(tile, row_begin, state)) {
    if (tile.head_dim % kStepDims == 0) return;
    for (BFloat16* pair : last_keys_) _mm512_store_si512(pair, _mm512_setzero_si512());
  }

  void run() {
    const TileShapes shapes = shapes_for(num_rows_);
    const TileScope scope(shapes);
    for (size_t chunk = 0; chunk < num_chunks_; chunk += kSums) score(chunk);
    factors_ = soften_rows<Lanes, PairDots>(
        tile_, chunks_, row_begin_, num_rows_, scores_, weights_, counts_, at_
    );
    num_tile_chunks_ = clear_unseen();
    size_t dim = 0;
    for (; dim + kSums * kLanes <= tile_.head_dim; dim += kSums * kLanes) add_values<kSums>(dim);
    for (; dim + kLanes <= tile_.head_dim; dim += kLanes) add_values<1>(dim);
    if (dim == tile_.head_dim) return;
    for (size_t row = 0; row < num_rows_; ++row) {
      finish(row, dim, Lanes::zero(), 0, tile_.head_dim - dim);
    }
  }

 private:
  // All rows against four chunks. Those past the last one are read, and their scores dropped.
  void score(size_t chunk) {
    clear_sums<kSums>();
    const BFloat16* queries =
        static_cast<const BFloat16*>(tile_.queries) + row_begin_ * query_stride(tile_);
    for (size_t d = 0; d < tile_.head_dim; d += kStepDims) {
      load_tile<kQueryTile>(queries + d, query_stride(tile_) * sizeof(BFloat16));
      add_scores<0>(chunk, d);
      if (is_asking_) ask_for_values(chunk, d);
    }
    store_sums<kSums>(&scores_[0][chunk * kLanes], kSplitPositions);
  }
  template <int kSum>
  [[gnu::always_inline]] void add_scores(size_t chunk, size_t d) {
    const size_t num_pairs = (tile_.head_dim - d) / 2;
    const BFloat16* keys = chunks_.keys[chunk + kSum] + d * tile_.block_size;
    const size_t stride = 2 * tile_.block_size;
    if (num_pairs >= kTileRows) {
      load_passing_tile<kKeyTile>(keys, stride * sizeof(BFloat16));
    } else {
      // What lies behind a key's last dimension belongs to others.
      for (size_t pair = 0; pair < num_pairs; ++pair) {
        _mm512_store_si512(last_keys_[pair], _mm512_loadu_si512(keys + pair * stride));
      }
      load_tile<kKeyTile>(last_keys_, kTileRowBytes);
    }
    add_pair_products<kSum, kQueryTile, kKeyTile>();
    if constexpr (kSum + 1 < kSums) add_scores<kSum + 1>(chunk, d);
  }

  // Weights of zero where a row sees nothing. Returns how many chunks may then be multiplied: up to
  // one where the zeros would meet what is no number.
  size_t clear_unseen() {
    for (size_t row = 0; row < num_rows_; ++row) {
      size_t position = (counts_[row] + 2 * kLanes - 1) / (2 * kLanes) * (2 * kLanes);
      for (; position < num_chunks_ * kLanes; position += 2 * kLanes) {
        _mm512_store_si512(&weights_[row][position], _mm512_setzero_si512());
      }
    }
    size_t chunk = counts_[0] / kLanes;
    const size_t size = kLanes * tile_.head_dim;
    while (chunk < num_chunks_ && are_finite(chunks_.values[chunk], size)) ++chunk;
    return chunk;
  }

  // Dimensions [dim, dim + 16 * kCount).
  template <size_t kCount>
  void add_values(size_t dim) {
    clear_sums<kCount>();
    for (size_t chunk = 0; chunk < num_tile_chunks_; ++chunk) {
      load_tile<kWeightTile>(&weights_[0][chunk * kLanes], kSplitPositions * sizeof(BFloat16));
      add_products<0, kCount>(chunks_.values[chunk] + 2 * dim);
      if (is_asking_) ask_for_keys(chunk, dim / 2, kCount * kLanes / 2);
    }
    store_sums<kCount>(outputs_[0], kSums * kLanes);
    for (size_t row = 0; row < num_rows_; ++row) {
      for (size_t i = 0; i < kCount; ++i) {
        const Lanes sums = Lanes::load(&outputs_[row][i * kLanes]);
        finish(row, dim + i * kLanes, sums, num_tile_chunks_, kLanes);
      }
    }
  }
  template <int kSum, size_t kCount>
  [[gnu::always_inline]] void add_products(const BFloat16* values) {
    load_passing_tile<kValueTile>(
        values + kSum * 2 * kLanes, 2 * tile_.head_dim * sizeof(BFloat16)
    );
    add_pair_products<kSum, kWeightTile, kValueTile>();
    if constexpr (kSum + 1 < kCount) add_products<kSum + 1, kCount>(values);
  }

  // Adds the chunks from `chunk` on that the row sees to the sums of n <= 16 dimensions.
  [[gnu::always_inline]] void finish(size_t row, size_t dim, Lanes sums, size_t chunk, size_t n) {
    for (; chunk * kLanes < counts_[row]; ++chunk) {
      sums = Lanes::add(sums, sum_of_chunk(row, dim, chunk, n));
    }
    // Whatever a weight of zero was multiplied with, a zero is positive.
    sums = Lanes::add(sums, Lanes::zero());
    float* out = at_.outputs + row * tile_.head_dim + dim;
    put_outputs(sums, chunks_.is_first, factors_, row, out, n);
  }
  Lanes sum_of_chunk(size_t row, size_t dim, size_t chunk, size_t n) const {
    const BFloat16* weights = &weights_[row][chunk * kLanes];
    const size_t rest = counts_[row] - chunk * kLanes;
    const size_t count = rest < kLanes ? rest : kLanes;
    Lanes even = Lanes::zero();
    Lanes odd = Lanes::zero();
    for (size_t i = 0; i < count; i += 2) {
      const BFloat16* values = chunks_.values[chunk] + i * tile_.head_dim + 2 * dim;
      BFloat16 copy[2 * kLanes] = {};
      if (n < kLanes) {
        for (size_t j = 0; j < 2 * n; ++j) copy[j] = values[j];
        values = copy;
      }
      even = Lanes::fma(Lanes::widen_even(values), broadcast(weights[i]), even);
      if (i + 1 < count) odd = Lanes::fma(Lanes::widen_odd(values), broadcast(weights[i + 1]), odd);
    }
    return Lanes::add(even, odd);
  }
  [[gnu::always_inline]] static Lanes broadcast(BFloat16 x) {
    return {_mm512_castsi512_ps(_mm512_set1_epi32(static_cast<int>(x.bits) << 16))};
  }

  // Memory is asked for one half of the work ahead: a step's share of the values of four chunks,
  // whose lines lie one after the other, and pairs of the keys of a chunk of the next split.
  [[gnu::always_inline]] void ask_for_values(size_t chunk, size_t d) const {
    for (size_t i = chunk; i < chunk + kSums; ++i) {
      for (size_t line = d / 2; line < (d + kStepDims) / 2 && line < tile_.head_dim / 2; ++line) {
        __builtin_prefetch(chunks_.values[i] + line * 2 * kLanes, 0, 2);
      }
    }
  }
  [[gnu::always_inline]] void ask_for_keys(size_t chunk, size_t pair, size_t count) const {
    for (size_t i = pair; i < pair + count; ++i) {
      __builtin_prefetch(chunks_.next_keys[chunk] + i * 2 * tile_.block_size, 0, 2);
    }
  }

  template <size_t kCount, int kSum = 0>
  [[gnu::always_inline]] static void clear_sums() {
    clear_tile<kSum>();
    if constexpr (kSum + 1 < kCount) clear_sums<kCount, kSum + 1>();
  }
  // `out`: rows `stride` floats apart.
  template <size_t kCount, int kSum = 0>
  [[gnu::always_inline]] static void store_sums(float* out, size_t stride) {
    store_tile<kSum>(out + kSum * kLanes, stride * sizeof(float));
    if constexpr (kSum + 1 < kCount) store_sums<kCount, kSum + 1>(out, stride);
  }

  const AttentionTile& tile_;
  const Chunks& chunks_;
  const size_t row_begin_;
  const size_t num_rows_;
  const size_t num_chunks_;
  const bool is_asking_;  // the rows that follow find it in the cache
  const StateRows at_;
  size_t counts_[kTileRows];  // positions that each row sees, ascending
  size_t num_tile_chunks_ = 0;
  MergeFactors factors_;
  alignas(64) float scores_[kTileRows][kSplitPositions];
  alignas(64) BFloat16 weights_[kTileRows][kSplitPositions];
  alignas(64) float outputs_[kTileRows][kSums * kLanes];
  alignas(64) BFloat16 last_keys_[kTileRows][kStepDims];  // those past the last dimension are zero
};

}  // namespace

void attend_amx(const AttentionTile& tile, size_t split_begin, size_t split_end, float* results) {
  encode_query_rows(tile);
  const auto attend = [&](const Chunks& chunks, size_t row_begin, size_t num_rows, float* state) {
    RowTile(tile, chunks, row_begin, num_rows, state).run();
  };
  for_each_row_tile<PairDots>(tile, split_begin, split_end, results, kTileRows, attend);
}

}  // namespace millrace
