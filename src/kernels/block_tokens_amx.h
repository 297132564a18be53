// What the products of FewTiles and ManyTiles share: the tokens that all weights pass by at once,
// and their sums. See lanes.h for the rules of this file. `Weights` says how a panel becomes tiles:
//
//   Products           what tiles are multiplied as, one of the two below
//   kBlockInputs       inputs that are unpacked at once: a divisor of Products::kStepInputs
//   kPanelsAtOnce      panels that are read side by side where tokens are few: 1, 2 or 4
//   unpack(task, panel, index, num_panels, out)   block `index` of a panel as 32 bits of each of 16
//                      rows in turn, [kBlockInputs / n][16][n]; zeros past the last input. Also
//                      asks for a block further on, hint_at() of so many panels: to the
//                      second-level cache, as hints to the first take the few places for its own
//                      misses
//   finish_sums(task, place, sums)    what a tile's sums lack after all its products, to floats in
//                      the same place
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/amx_tiles.h"
#include "kernels/bfloat16_rows_kernel.h"
#include "kernels/lanes_avx512.h"
#include "kernels/linear_kernel.h"
#include "kernels/linear_lanes.h"

namespace millrace {
namespace {

// Tiles of bfloat16, summed in float32.
struct BFloat16Products {
  using Element = BFloat16;
  static constexpr size_t kStepInputs = kTileRowBytes / sizeof(Element);  // of one instruction

  template <int kSums, int kLeft, int kRight>
  [[gnu::always_inline]] static void add() {
    add_pair_products<kSums, kLeft, kRight>();
  }
};
static_assert(kInputTileRows == kTileRows && kInputTileColumns == BFloat16Products::kStepInputs);

// Tiles of int8, summed in int32.
struct ByteProducts {
  using Element = int8_t;
  static constexpr size_t kStepInputs = kTileRowBytes / sizeof(Element);

  template <int kSums, int kLeft, int kRight>
  [[gnu::always_inline]] static void add() {
    add_byte_products<kSums, kLeft, kRight>();
  }
};

template <class Products>
using Tile = typename Products::Element[kTileBytes / sizeof(typename Products::Element)];

template <class Products>
size_t num_steps_of(const LinearTask& task) {
  return (task.num_inputs + Products::kStepInputs - 1) / Products::kStepInputs;
}

// Where a hint of `num_bytes` ahead of `data`, which lies `offset` bytes behind its panel's begin,
// points to when num_panels are read side by side: past the panel's end it is for the next one
// that is read in its place.
[[gnu::always_inline]] inline const uint8_t* hint_at(
    const LinearTask& task, const uint8_t* data, size_t offset, size_t num_bytes, size_t num_panels
) {
  const bool is_past = offset + num_bytes >= task.panel_size;
  return data + num_bytes + (is_past ? (num_panels - 1) * task.panel_size : 0);
}

// Outputs of two panels, gate and up, for a tile of tokens: half of a tile that the next product
// reads, whose other half is zero where there are no more outputs.
inline void finish_gated_tile(const LinearTask& task, const TilePlace& place, const float* sums) {
  const size_t column = place.panel_begin / 2 * kLanes;
  const size_t num_tiles_across = (task.num_outputs + kInputTileColumns - 1) / kInputTileColumns;
  const size_t tile_rows = task.num_tokens < kTileRows ? task.num_tokens : kTileRows;
  const size_t tile = place.token_begin / kTileRows * num_tiles_across + column / kInputTileColumns;
  BFloat16* out =
      task.out_tiles + tile * tile_rows * kInputTileColumns + column % kInputTileColumns;
  const bool is_last = column % kInputTileColumns == 0 && column + kLanes >= task.num_outputs;
  const float* const bias = task.bias == nullptr ? nullptr : task.bias + place.panel_begin * kLanes;
  const size_t up_distance = place.num_tokens * kLanes;
  for (size_t token = 0; token < place.num_tokens; ++token, out += kInputTileColumns) {
    Avx512Lanes::store(out, gated_values<Avx512Lanes>(sums + token * kLanes, up_distance, bias));
    if (is_last) Avx512Lanes::store(out + kLanes, Avx512Lanes::zero());
  }
}

// Tokens that all weights pass by at once.
template <class Weights>
class BlockTokens {
 public:
  using Products = typename Weights::Products;
  using Element = typename Products::Element;

  BlockTokens(const LinearTask& task, size_t token_begin, size_t num_tokens)
      : task_(task), token_begin_(token_begin), num_tokens_(num_tokens) {}

  size_t num_tokens() const { return num_tokens_; }

  // `token`: a tile's first.
  const Element* inputs_at(size_t token, size_t step) const {
    const size_t tile = (token_begin_ + token) / kTileRows * num_steps() + step;
    return static_cast<const Element*>(task_.x) + tile * task_.x_stride;
  }
  size_t num_steps() const { return num_steps_of<Products>(task_); }
  size_t num_tokens_at(size_t token) const {
    const size_t rest = num_tokens_ - token;
    return rest < kTileRows ? rest : kTileRows;
  }

  // `sums`: a tile's, [num_panels][num_tokens_at(token)][16].
  void finish(size_t token, size_t panel, size_t num_panels, float* sums) const {
    const TilePlace place = {panel, num_panels, token_begin_ + token, num_tokens_at(token)};
    Weights::finish_sums(task_, place, sums);
    if (task_.out_tiles == nullptr) return finish_tile<Avx512Lanes>(task_, place, sums);
    for (size_t i = 0; i < num_panels; i += 2) {
      const TilePlace pair = {panel + i, 2, place.token_begin, place.num_tokens};
      finish_gated_tile(task_, pair, sums + i * place.num_tokens * kLanes);
    }
  }

 private:
  const LinearTask& task_;
  const size_t token_begin_;
  const size_t num_tokens_;
};

// Calls function.operator()<register>(panel, first token of the tile) for the sums of kTiles tiles
// of tokens and kPanels panels. In this order rows that a tile has too many are overwritten by the
// next panel's.
template <size_t kTiles, size_t kPanels, int kSum = 0, class Function>
[[gnu::always_inline]] inline void each_sum(const Function& function) {
  function.template operator()<kSum>(kSum / kTiles, kSum % kTiles * kTileRows);
  if constexpr (kSum + 1 < kTiles * kPanels) each_sum<kTiles, kPanels, kSum + 1>(function);
}

}  // namespace
}  // namespace millrace
