#include <immintrin.h>

#include "kernels/amx_tiles.h"
#include "kernels/linear_lanes.h"
#include "kernels/quantized/dots_avx512.h"
#include "kernels/quantized/linear_quantized_kernel.h"
#include "kernels/quantized/tile_memory_lanes.h"
#include "kernels/token_blocks.h"

namespace millrace {
namespace {

using Floats = Avx512Lanes;

constexpr size_t kGroupInputs = 64;
// Fewer tokens wait for memory, which the other kernel reads as fast.
constexpr size_t kTokensMin = 5;
// Tokens whose inputs stay in the second cache while all panels pass by.
constexpr TokenBlocks kBlocks = {
    .num_bytes_max = size_t{1} << 20, .num_tokens_max = 256, .num_tile_tokens = kTileRows};
// Groups whose weights, and the sums of a few tokens, stay in the first cache.
constexpr size_t kPassGroups = 4;
constexpr size_t kTermsMax = 2;
constexpr size_t kPassParts = kPassGroups * kTermsMax;

// The registers: of whole tiles of 16 tokens, and of the tokens that are left over.
constexpr int kSumTile = 0;
constexpr int kInputTile = 1;
constexpr int kRestSumTile = 2;
constexpr int kRestInputTile = 3;
constexpr int kWeightTile = 4;

// All that the first cache is to hold.
struct BlockScratch {
  alignas(64) unsigned char weights[2][kPassGroups][kTileBytes];  // signed, as a tile reads them
  alignas(64) float scales[2][kPassGroups][kLanes];
  // Of the tile that is added and of the one that is multiplied meanwhile.
  alignas(64) int32_t products[2][kPassParts][kTileRows][kLanes] = {};
  alignas(64) float sums[2 * kBlocks.num_tokens_max * kLanes];  // of each tile [panels][tokens][16]
};

struct GroupRange {
  size_t begin;
  size_t end;
};

// A group of a panel is a tile already: four inputs of each of 16 rows in 64 bytes. Codes have 128
// added, which flipping their highest bit takes away.
[[gnu::always_inline]] inline void write_weights(
    Int8Weights, const unsigned char* group, __m512i, unsigned char* tile
) {
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
#pragma GCC unroll 16
  for (size_t i = 0; i < kTileBytes; i += 64) {
    _mm512_store_si512(tile + i, _mm512_xor_si512(_mm512_loadu_si512(group + i), sign));
  }
}
// `table`: the signed codes.
[[gnu::always_inline]] inline void write_weights(
    Int4Weights, const unsigned char* group, __m512i table, unsigned char* tile
) {
#pragma GCC unroll 8
  for (size_t i = 0; i < kTileBytes; i += 128) {
    _mm512_store_si512(tile + i, Avx512DotsBase::low_codes(group + i / 2, table));
    _mm512_store_si512(tile + i + 64, Avx512DotsBase::high_codes(group + i / 2, table));
  }
}

// kPanels panels for a block of tokens, some groups in each pass. A tile is one panel and up to 16
// tokens; while the sums of one are scaled and added, the products of the next are under way.
template <class Weights, size_t kPanels>
class BlockProduct {
 public:
  BlockProduct(const QuantizedTask& task, const TilePlace& block, BlockScratch& scratch)
      : task_(task), block_(block), scratch_(scratch) {}

  void run() const {
    for (size_t begin = 0; begin < task_.num_groups; begin += kPassGroups) {
      const size_t rest = task_.num_groups - begin;
      add_groups({begin, begin + (rest < kPassGroups ? rest : kPassGroups)});
    }
  }

 private:
  struct Tile {
    size_t panel;  // of the block's
    size_t token;  // of the block's
    size_t num_tokens;
  };

  // A term of a group: of those of a pass.
  struct Part {
    size_t group = 0;
    size_t term = 0;
    size_t index = 0;
  };
  [[gnu::always_inline]] void step(Part& part) const {
    ++part.index;
    if (++part.term < task_.num_terms) return;
    part.term = 0;
    ++part.group;
  }

  // The panels in turn, then the next tokens.
  Tile tile_at(size_t index) const {
    const size_t token = index / kPanels * kTileRows;
    const size_t rest = block_.num_tokens - token;
    return {index % kPanels, token, rest < kTileRows ? rest : kTileRows};
  }

  void add_groups(GroupRange groups) const {
    for (size_t panel = 0; panel < kPanels; ++panel) read_groups(panel, groups);
    const size_t num_tiles = (block_.num_tokens + kTileRows - 1) / kTileRows * kPanels;
    const size_t num_groups = groups.end - groups.begin;
    for (Part part; part.group < num_groups; step(part)) multiply(tile_at(0), groups, part, 0);
    const WeightsAhead ahead = weights_after(groups);
    const size_t lines_per_tile = (ahead.num_lines + num_tiles - 1) / num_tiles;
    size_t next_line = 0;
    const bool is_last = groups.end == task_.num_groups;
    for (size_t i = 0; i < num_tiles; ++i) {
      const Tile tile = tile_at(i);
      const Tile next = i + 1 < num_tiles ? tile_at(i + 1) : Tile{};
      const TilePlace outputs = {
          block_.panel_begin, kPanels, block_.token_begin + tile.token, tile.num_tokens};
      ask_for_weights<kPanels>(ahead, next_line, lines_per_tile, task_.panel_bytes);
      if (is_last && tile.panel == 0) ask_for_outputs(task_.output, outputs);
      if (tile.num_tokens == kTileRows) {
        add_tile<true>(tile, groups, i % 2, next);
      } else {
        add_tile<false>(tile, groups, i % 2, next);
      }
      if (is_last && tile.panel + 1 == kPanels) {
        finish_tile<Floats>(task_.output, outputs, sums_of({0, tile.token, tile.num_tokens}));
      }
    }
  }

  // What the next pass will read: of these panels, or the first groups of the next ones. Past the
  // last panel hints ask for what nobody reads.
  WeightsAhead weights_after(GroupRange groups) const {
    const bool is_last = groups.end == task_.num_groups;
    const size_t begin = is_last ? 0 : groups.end;
    const size_t rest = task_.num_groups - begin;
    const size_t end = begin + (rest < kPassGroups ? rest : kPassGroups);
    const size_t first = group_offset(Weights::kGroupBytes, begin) / 64;
    const size_t last = group_offset(Weights::kGroupBytes, end) / 64;
    const unsigned char* data = panel_at(is_last ? kPanels : 0);
    return {data + first * 64, last - first};
  }

  // Weights and scales of some groups of a panel.
  void read_groups(size_t panel, GroupRange groups) const {
    const __m512i table =
        _mm512_xor_si512(Avx512DotsBase::load_table(), _mm512_set1_epi8(static_cast<char>(0x80)));
    const unsigned char* data = panel_at(panel);
    for (size_t group = groups.begin; group < groups.end; ++group) {
      const size_t i = group - groups.begin;
      const unsigned char* codes = data + group_offset(Weights::kGroupBytes, group);
      write_weights(Weights{}, codes, table, scratch_.weights[panel][i]);
      const unsigned char* scales = data + group_scales_offset(Weights::kGroupBytes, group);
      Floats::store(scratch_.scales[panel][i], Avx512DotsBase::load_scales(scales));
    }
  }

  // The products of one part of a tile, into one of the two places for them.
  [[gnu::always_inline]] void multiply(const Tile& tile, GroupRange groups, Part part, size_t place)
      const {
    const unsigned char* inputs =
        row_at(tile) + (groups.begin * task_.num_terms + part.index) * kGroupInputs;
    const unsigned char* weights = scratch_.weights[tile.panel][part.group];
    int32_t* products = scratch_.products[place][part.index][0];
    if (tile.num_tokens == kTileRows) {
      multiply_tile<kSumTile, kInputTile>(inputs, weights, products);
    } else {
      multiply_tile<kRestSumTile, kRestInputTile>(inputs, weights, products);
    }
  }
  template <int kSum, int kInput>
  [[gnu::always_inline]] void multiply_tile(
      const unsigned char* inputs, const unsigned char* weights, int32_t* products
  ) const {
    load_tile<kInput>(inputs, task_.row_stride);
    load_tile<kWeightTile>(weights, kTileRowBytes);
    clear_tile<kSum>();
    add_byte_products<kSum, kInput, kWeightTile>();
    store_tile<kSum>(products, kTileRowBytes);
  }

  // Adds the products of some groups, times their scales, to the tile's sums, which are multiplied
  // by the rows' scales after the last group. A product of integers and its group's scale is
  // rounded once, as in add_scaled() of quantized_tile_lanes.h. Meanwhile multiplies `next`, if
  // that has tokens.
  template <bool kIsWhole>
  void add_tile(const Tile& tile, GroupRange groups, size_t place, const Tile& next) const {
    float* sums = sums_of(tile);
    Floats totals[kTileRows];
#pragma GCC unroll 16
    for (size_t token = 0; token < kTileRows; ++token) {
      const bool is_there = groups.begin > 0 && (kIsWhole || token < tile.num_tokens);
      totals[token] = is_there ? Floats::load(sums + token * kLanes) : Floats::zero();
    }
    const size_t stride = task_.row_stride;
    const size_t num_groups = groups.end - groups.begin;
    const unsigned char* input_scales = row_at(tile) +
                                        task_.num_groups * task_.num_terms * kGroupInputs +
                                        groups.begin * task_.num_terms * sizeof(float);
    for (Part part; part.group < num_groups; step(part), input_scales += sizeof(float)) {
      if (next.num_tokens > 0) multiply(next, groups, part, 1 - place);
      const Floats scale = Floats::load(scratch_.scales[tile.panel][part.group]);
      const int32_t* products = scratch_.products[place][part.index][0];
      const unsigned char* input_scale = input_scales;
#pragma GCC unroll 16
      for (size_t token = 0; token < kTileRows; ++token) {
        const __m512i sum = _mm512_load_si512(products + token * kLanes);
        const Floats product = Floats::mul({_mm512_cvtepi32_ps(sum)}, scale);
        const float factor = *reinterpret_cast<const float*>(input_scale);
        totals[token] = Floats::fma(product, Floats::broadcast(factor), totals[token]);
        // Of tokens that are not there nothing is read; their totals are nobody's.
        if (kIsWhole || token + 1 < tile.num_tokens) input_scale += stride;
        forget_origin(input_scale);
      }
    }
    const Floats row_scale =
        groups.end == task_.num_groups ? row_scale_of(tile.panel) : Floats::broadcast(1.0F);
#pragma GCC unroll 16
    for (size_t token = 0; token < kTileRows; ++token) {
      if (!kIsWhole && token >= tile.num_tokens) break;
      Floats::store(sums + token * kLanes, Floats::mul(totals[token], row_scale));
    }
  }

  Floats row_scale_of(size_t panel) const {
    const unsigned char* p =
        panel_at(panel) + row_scales_offset(Weights::kGroupBytes, task_.num_groups);
    return Floats::load(reinterpret_cast<const float*>(p));
  }
  const unsigned char* panel_at(size_t panel) const {
    return task_.panels + (block_.panel_begin + panel) * task_.panel_bytes;
  }
  const unsigned char* row_at(const Tile& tile) const {
    return task_.rows + (block_.token_begin + tile.token) * task_.row_stride;
  }
  float* sums_of(const Tile& tile) const {
    return scratch_.sums + (tile.token * kPanels + tile.panel * tile.num_tokens) * kLanes;
  }

  const QuantizedTask& task_;
  const TilePlace block_;
  BlockScratch& scratch_;
};

template <class Weights>
void run_block(const QuantizedTask& task, size_t panel, size_t panel_end, TilePlace place) {
  TileShapes shapes;
  const size_t num_rest = place.num_tokens % kTileRows;
  shapes.set(kSumTile, kTileRows);
  shapes.set(kInputTile, kTileRows);
  shapes.set(kRestSumTile, num_rest == 0 ? kTileRows : num_rest);
  shapes.set(kRestInputTile, num_rest == 0 ? kTileRows : num_rest);
  shapes.set(kWeightTile, kTileRows);
  const TileScope scope(shapes);
  BlockScratch scratch;
  for (; panel + 2 <= panel_end; panel += 2) {
    place.panel_begin = panel;
    BlockProduct<Weights, 2>(task, place, scratch).run();
  }
  if (panel < panel_end) {
    place.panel_begin = panel;
    BlockProduct<Weights, 1>(task, place, scratch).run();
  }
}

}  // namespace

template <class Weights>
void linear_quantized_amx(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  const size_t num_tokens = task.output.num_tokens;
  if (num_tokens < kTokensMin) {
    return linear_quantized_avx512_dot<Weights>(task, panel_begin, panel_end);
  }
  const size_t num_block_tokens = kBlocks.num_tokens_of(num_tokens, task.row_stride);
  for (size_t token = 0; token < num_tokens; token += num_block_tokens) {
    const size_t rest = num_tokens - token;
    const size_t count = rest < num_block_tokens ? rest : num_block_tokens;
    const TilePlace place = {panel_begin, 0, token, count};
    run_block<Weights>(task, panel_begin, panel_end, place);
  }
}

template void linear_quantized_amx<Int8Weights>(const QuantizedTask&, size_t, size_t);
template void linear_quantized_amx<Int4Weights>(const QuantizedTask&, size_t, size_t);

}  // namespace millrace
