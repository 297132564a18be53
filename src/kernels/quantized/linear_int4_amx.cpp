#include <immintrin.h>

#include "kernels/amx_tiles.h"
#include "kernels/linear_lanes.h"
#include "kernels/quantized/dots_avx512_dot.h"
#include "kernels/quantized/linear_quantized_kernel.h"
#include "kernels/quantized/linear_quantized_lanes.h"
#include "kernels/quantized/tile_memory_lanes.h"
#include "kernels/token_blocks.h"

namespace millrace {
namespace {

using Floats = Avx512Lanes;

constexpr size_t kGroupBytes = Int4Weights::kGroupBytes;
// Fewer tokens wait for memory, and are multiplied without tiles.
constexpr size_t kTokensMin = 6;
// Hints make a row of 896 inputs 1.2 times as fast on processors with AMX; others fetch ahead
// better by themselves.
struct AskingDots : VnniDots {
  static constexpr size_t kBytesAhead = 2048;
};
// Tokens whose inputs stay in the second cache while all panels pass by.
constexpr TokenBlocks kTileBlocks = {
    .num_bytes_max = size_t{1} << 20, .num_tokens_max = 256, .num_tile_tokens = kTileRows};
// The weights of a pass, and the products of two tiles of tokens, stay in the first cache.
constexpr size_t kPassGroups = 4;
constexpr size_t kUnitTiles = 2;

// All that the first cache is to hold.
struct BlockScratch {
  alignas(64) unsigned char weights[2][kPassGroups][kTileBytes];  // signed, as a tile reads them
  alignas(64) float scales[2][kPassGroups][kLanes];
  alignas(64) int32_t products[2][kUnitTiles][kPassGroups][kTileRows][kLanes];
  alignas(64
  ) float sums[2 * kTileBlocks.num_tokens_max * kLanes];  // of each tile [panels][tokens][16]
};

struct GroupRange {
  size_t begin;
  size_t end;
};

// A group of a panel as a tile: four inputs of each of 16 rows in 64 bytes. `table`: the codes,
// signed: with their highest bit flipped, which takes the 128 away that they have added.
[[gnu::always_inline]] inline void write_weights(
    const unsigned char* group, __m512i table, unsigned char* tile
) {
#pragma GCC unroll 8
  for (size_t i = 0; i < kTileBytes; i += 128) {
    _mm512_store_si512(tile + i, Avx512DotsBase::low_codes(group + i / 2, table));
    _mm512_store_si512(tile + i + 64, Avx512DotsBase::high_codes(group + i / 2, table));
  }
}

// The registers: 0 .. 3 are products, of two tiles with a panel and then with the next; 4 and 5 are
// inputs.
constexpr int kWeightTile = 6;

// kPanels panels for a block of tokens, some groups in each pass: of two tiles of up to 16 tokens
// all products, so that each weight and each input is read for two, and then all sums. One after
// the other, as vector operations have one port instead of two while tiles are multiplied.
template <size_t kPanels>
class BlockProduct {
 public:
  BlockProduct(const QuantizedTask& task, const TilePlace& block, BlockScratch& scratch)
      : task_(task), block_(block), scratch_(scratch) {}

  void run() const {
    for (size_t begin = 0; begin < task_.num_groups; begin += kPassGroups) {
      add_groups(pass_from(begin));
    }
  }

 private:
  GroupRange pass_from(size_t group) const {
    const size_t rest = task_.num_groups - group;
    return {group, group + (rest < kPassGroups ? rest : kPassGroups)};
  }
  bool is_last(GroupRange groups) const { return groups.end == task_.num_groups; }

  // Of the block's tokens. The last tile of several has 16 rows as well: the first ones are tokens
  // of the tile before, which are not added again.
  struct Tile {
    size_t token;       // the first that is added
    size_t num_tokens;  // that are added
    size_t row_begin;   // the first token's
  };
  Tile tile_at(size_t token) const {
    const size_t rest = block_.num_tokens - token;
    const size_t num_tokens = rest < kTileRows ? rest : kTileRows;
    return {token, num_tokens, token == 0 ? 0 : kTileRows - num_tokens};
  }

  void add_groups(GroupRange groups) const {
    for (size_t panel = 0; panel < kPanels; ++panel) read_groups(panel, groups);
    constexpr size_t kUnitTokens = kUnitTiles * kTileRows;
    const size_t num_units = (block_.num_tokens + kUnitTokens - 1) / kUnitTokens;
    Asking asking = asking_after(groups, num_units * (groups.end - groups.begin));
    for (size_t token = 0; token < block_.num_tokens; token += kUnitTokens) {
      const Tile first = tile_at(token);
      if (token + kTileRows < block_.num_tokens) {
        const Tile second = tile_at(token + kTileRows);
        multiply<2>(groups, row_at(first), row_at(second), asking);
        add_tile(first, groups, 0);
        add_tile(second, groups, 1);
      } else {
        multiply<1>(groups, row_at(first), nullptr, asking);
        add_tile(first, groups, 0);
      }
    }
  }

  // What the next pass will read: of these panels, or the first groups of the next ones. Past the
  // last panel hints ask for what nobody reads.
  struct Asking {
    WeightsAhead ahead;
    size_t lines_per_turn;
    size_t next_line = 0;
  };
  Asking asking_after(GroupRange groups, size_t num_turns) const {
    const GroupRange next = pass_from(is_last(groups) ? 0 : groups.end);
    const size_t first = group_offset(kGroupBytes, next.begin) / 64;
    const size_t count = group_offset(kGroupBytes, next.end) / 64 - first;
    const unsigned char* data = panel_at(is_last(groups) ? kPanels : 0) + first * 64;
    return {{data, count}, (count + num_turns - 1) / num_turns};
  }

  // Weights and scales of some groups of a panel.
  void read_groups(size_t panel, GroupRange groups) const {
    const __m512i table =
        _mm512_xor_si512(Avx512DotsBase::load_table(), _mm512_set1_epi8(static_cast<char>(0x80)));
    const unsigned char* data = panel_at(panel);
    for (size_t group = groups.begin; group < groups.end; ++group) {
      const size_t i = group - groups.begin;
      const unsigned char* codes = data + group_offset(kGroupBytes, group);
      write_weights(codes, table, scratch_.weights[panel][i]);
      const unsigned char* scales = data + group_scales_offset(kGroupBytes, group);
      Floats::store(scratch_.scales[panel][i], Avx512DotsBase::load_scales(scales));
    }
  }

  // The products of one or two tiles with some groups.
  template <size_t kTiles>
  void multiply(
      GroupRange groups,
      const unsigned char* first_rows,
      const unsigned char* second_rows,
      Asking& asking
  ) const {
    const size_t stride = task_.row_stride;
    for (size_t group = groups.begin; group < groups.end; ++group) {
      const size_t input = group * kGroupInputs;
      const size_t place = group - groups.begin;
      load_tile<4>(first_rows + input, stride);
      if constexpr (kTiles == 2) load_tile<5>(second_rows + input, stride);
      multiply_panel<0, kTiles>(place);
      if constexpr (kPanels == 2) multiply_panel<1, kTiles>(place);
      store_products<0, kTiles>(place);
      if constexpr (kPanels == 2) store_products<1, kTiles>(place);
      ask_for_weights<kPanels>(
          asking.ahead, asking.next_line, asking.lines_per_turn, task_.panel_bytes
      );
    }
  }
  template <int kPanel, size_t kTiles>
  [[gnu::always_inline]] void multiply_panel(size_t group) const {
    load_tile<kWeightTile + kPanel>(scratch_.weights[kPanel][group], kTileRowBytes);
    clear_tile<2 * kPanel>();
    add_byte_products<2 * kPanel, 4, kWeightTile + kPanel>();
    if constexpr (kTiles == 2) {
      clear_tile<2 * kPanel + 1>();
      add_byte_products<2 * kPanel + 1, 5, kWeightTile + kPanel>();
    }
  }
  template <int kPanel, size_t kTiles>
  [[gnu::always_inline]] void store_products(size_t group) const {
    store_tile<2 * kPanel>(scratch_.products[kPanel][0][group], kTileRowBytes);
    if constexpr (kTiles == 2) {
      store_tile<2 * kPanel + 1>(scratch_.products[kPanel][1][group], kTileRowBytes);
    }
  }

  // Adds the products of tile `index` of two to its sums, and finishes it after the last groups.
  void add_tile(const Tile& tile, GroupRange groups, size_t index) const {
    const TilePlace outputs = {
        block_.panel_begin, kPanels, block_.token_begin + tile.token, tile.num_tokens};
    if (is_last(groups)) ask_for_outputs(task_.output, outputs);
    for (size_t panel = 0; panel < kPanels; ++panel) {
      if (tile.num_tokens == kTileRows) {
        add_products<true>(tile, panel, groups, scratch_.products[panel][index]);
      } else {
        add_products<false>(tile, panel, groups, scratch_.products[panel][index]);
      }
    }
    if (is_last(groups)) finish_tile<Floats>(task_.output, outputs, sums_of(tile, 0));
  }

  // Adds the products of some groups, times their scales, to the sums of a panel, which are
  // multiplied by the rows' scales after the last group. A product of integers and its group's
  // scale is rounded once, as in add_scaled() of quantized_tile_lanes.h.
  template <bool kIsWhole>
  void add_products(
      const Tile& tile,
      size_t panel,
      GroupRange groups,
      const int32_t (*products)[kTileRows][kLanes]
  ) const {
    float* sums = sums_of(tile, panel);
    const size_t row_begin = kIsWhole ? 0 : tile.row_begin;
    const size_t row_end = kIsWhole ? kTileRows : tile.row_begin + tile.num_tokens;
    Floats totals[kTileRows];
#pragma GCC unroll 16
    for (size_t row = 0; row < kTileRows; ++row) {
      const bool is_there = groups.begin > 0 && (kIsWhole || (row >= row_begin && row < row_end));
      totals[row] = is_there ? Floats::load(sums + (row - row_begin) * kLanes) : Floats::zero();
    }
    const size_t stride = task_.row_stride;
    const unsigned char* input_scales =
        row_at(tile) + task_.num_groups * kGroupInputs + groups.begin * sizeof(float);
    for (size_t i = 0; i < groups.end - groups.begin; ++i, input_scales += sizeof(float)) {
      const Floats scale = Floats::load(scratch_.scales[panel][i]);
      const unsigned char* input_scale = input_scales;
#pragma GCC unroll 16
      for (size_t row = 0; row < kTileRows; ++row) {
        const __m512i sum = _mm512_load_si512(products[i][row]);
        const Floats product = Floats::mul({_mm512_cvtepi32_ps(sum)}, scale);
        const float factor = *reinterpret_cast<const float*>(input_scale);
        totals[row] = Floats::fma(product, Floats::broadcast(factor), totals[row]);
        // Of rows that are not there nothing is read; their totals are nobody's.
        if (kIsWhole || row + 1 < row_end) input_scale += stride;
        forget_origin(input_scale);
      }
    }
    const Floats row_scale = is_last(groups) ? row_scale_of(panel) : Floats::broadcast(1.0F);
#pragma GCC unroll 16
    for (size_t row = 0; row < kTileRows; ++row) {
      if (!kIsWhole && (row < row_begin || row >= row_end)) continue;
      Floats::store(sums + (row - row_begin) * kLanes, Floats::mul(totals[row], row_scale));
    }
  }

  Floats row_scale_of(size_t panel) const {
    const unsigned char* p = panel_at(panel) + row_scales_offset(kGroupBytes, task_.num_groups);
    return Floats::load(reinterpret_cast<const float*>(p));
  }
  const unsigned char* panel_at(size_t panel) const {
    return task_.panels + (block_.panel_begin + panel) * task_.panel_bytes;
  }
  // Of the tile's first row.
  const unsigned char* row_at(const Tile& tile) const {
    return task_.rows + (block_.token_begin + tile.token - tile.row_begin) * task_.row_stride;
  }
  float* sums_of(const Tile& tile, size_t panel) const {
    return scratch_.sums + (tile.token * kPanels + panel * tile.num_tokens) * kLanes;
  }

  const QuantizedTask& task_;
  const TilePlace block_;
  BlockScratch& scratch_;
};

void multiply_block(const QuantizedTask& task, size_t panel, size_t panel_end, TilePlace place) {
  TileShapes shapes;
  const size_t num_rows = place.num_tokens < kTileRows ? place.num_tokens : kTileRows;
  for (size_t tile = 0; tile < kNumTiles; ++tile) shapes.set(tile, num_rows);
  shapes.set(kWeightTile, kTileRows);
  shapes.set(kWeightTile + 1, kTileRows);
  const TileScope scope(shapes);
  BlockScratch scratch;
  for (; panel + 2 <= panel_end; panel += 2) {
    place.panel_begin = panel;
    BlockProduct<2>(task, place, scratch).run();
  }
  if (panel < panel_end) {
    place.panel_begin = panel;
    BlockProduct<1>(task, place, scratch).run();
  }
}

}  // namespace

void linear_int4_amx(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  const size_t num_tokens = task.output.num_tokens;
  if (num_tokens < kTokensMin) {
    return linear_quantized_lanes<AskingDots, VnniTileShape, Int4Weights>(
        task, panel_begin, panel_end
    );
  }
  const size_t num_block_tokens = kTileBlocks.num_tokens_of(num_tokens, task.row_stride);
  for (size_t token = 0; token < num_tokens; token += num_block_tokens) {
    const size_t rest = num_tokens - token;
    const size_t count = rest < num_block_tokens ? rest : num_block_tokens;
    multiply_block(task, panel_begin, panel_end, {panel_begin, 0, token, count});
  }
}

}  // namespace millrace
