// More than two tiles of tokens by the panels of a matrix: multiplying takes the time. See lanes.h
// for the rules of this file.
#pragma once

#include <cstddef>

#include "kernels/amx_tiles.h"
#include "kernels/block_tokens_amx.h"
#include "kernels/linear_kernel.h"

namespace millrace {
namespace {

// Steps whose weights are unpacked while those before them are multiplied: sums are read and
// written once for all of them, and the first cache holds twice as many. Of few tokens it holds the
// sums as well, and half as many steps are faster: gate_up of 128 tokens takes 1.1 times as long by
// 16, of 512 tokens 1.15 times as long by 8.
constexpr size_t kPassSteps = 16;
constexpr size_t kShortPassSteps = 8;
constexpr size_t kShortPassTokens = 160;

// What of the tokens' inputs stays in the second cache while all weights pass by.
constexpr size_t kChunkBytes = size_t{3} << 19;

// Some steps of one or two panels.
struct Pass {
  size_t panel;
  size_t num_panels;
  size_t first_step;
  size_t num_steps;
  size_t buffer;  // 0 or 1: where its weights are unpacked
};

// `count` in nearly equal parts of at most `most`.
constexpr size_t part_of(size_t count, size_t most) {
  const size_t num_parts = (count + most - 1) / most;
  return (count + num_parts - 1) / num_parts;
}

// More than 32 tokens: two panels and two tiles of tokens at a time, all of them before the next
// steps. Meanwhile the weights of those are unpacked, a little after each step: tiles are
// multiplied by another unit of the core. Steps come in chunks, each of which all panels take part
// in before the next. Registers: 0 .. 3 are the sums, 4 and 5 inputs, 6 and 7 weights.
template <class Weights>
class ManyTiles {
  using Products = typename Weights::Products;
  using Element = typename Products::Element;

 public:
  // Panels whose sums fit the scratch.
  ManyTiles(
      const LinearTask& task,
      const BlockTokens<Weights>& tokens,
      size_t panel_begin,
      size_t panel_end
  )
      : task_(task),
        tokens_(tokens),
        panel_begin_(panel_begin),
        panel_end_(panel_end),
        chunk_steps_(chunk_steps_for(task, tokens.num_tokens())),
        pass_steps_(pass_steps_for(chunk_steps_, tokens.num_tokens())) {}

  static size_t chunk_steps_for(const LinearTask& task, size_t num_tokens) {
    const size_t most = kChunkBytes / (kTileRowBytes * num_tokens);
    return part_of(num_steps_of<Products>(task), most);
  }

  void run() {
    Pass pass = pass_at(panel_begin_, 0, 0);
    for (size_t i = 0; i < num_blocks_of(pass); ++i) unpack(pass, i);
    while (pass.num_panels > 0) {
      const Pass next = pass_after(pass);
      pass.num_panels == 2 ? multiply<2>(pass, next) : multiply<1>(pass, next);
      pass = next;
    }
  }

 private:
  static size_t pass_steps_for(size_t chunk_steps, size_t num_tokens) {
    return part_of(chunk_steps, num_tokens <= kShortPassTokens ? kShortPassSteps : kPassSteps);
  }

  size_t num_steps() const { return tokens_.num_steps(); }
  // The steps of first_step's chunk end here.
  size_t chunk_end(size_t first_step) const {
    const size_t end = (first_step / chunk_steps_ + 1) * chunk_steps_;
    return end < num_steps() ? end : num_steps();
  }
  Pass pass_at(size_t panel, size_t first_step, size_t buffer) const {
    const size_t num_panels = panel_end_ - panel < 2 ? panel_end_ - panel : 2;
    const size_t rest = chunk_end(first_step) - first_step;
    return {panel, num_panels, first_step, rest < pass_steps_ ? rest : pass_steps_, buffer};
  }
  // One without panels after the last.
  Pass pass_after(const Pass& pass) const {
    const size_t buffer = 1 - pass.buffer;
    const size_t step = pass.first_step + pass.num_steps;
    const size_t end = chunk_end(pass.first_step);
    if (step < end) return pass_at(pass.panel, step, buffer);
    const size_t panel = pass.panel + pass.num_panels;
    if (panel < panel_end_) {
      return pass_at(panel, pass.first_step / chunk_steps_ * chunk_steps_, buffer);
    }
    if (end < num_steps()) return pass_at(panel_begin_, end, buffer);
    return {.panel = panel_end_, .num_panels = 0, .first_step = 0, .num_steps = 0, .buffer = 0};
  }

  static constexpr size_t kStepBlocks = Products::kStepInputs / Weights::kBlockInputs;
  static size_t num_blocks_of(const Pass& pass) { return pass.num_steps * kStepBlocks; }

  Tile<Products>* weights_of(const Pass& pass, size_t panel) {
    return weights_[2 * pass.buffer + panel];
  }
  // Block `index` of a pass, of each panel.
  void unpack(const Pass& pass, size_t index) {
    for (size_t panel = 0; panel < pass.num_panels; ++panel) {
      Element* out = weights_of(pass, panel)[0] + index * Weights::kBlockInputs * kLanes;
      const size_t block = pass.first_step * kStepBlocks + index;
      Weights::unpack(task_, pass.panel + panel, block, pass.num_panels, out);
    }
  }

  // The blocks of the next pass, spread over the steps of this one.
  class Ahead {
   public:
    Ahead(ManyTiles& tiles, const Pass& next, size_t num_turns)
        : tiles_(tiles), next_(next), num_blocks_(num_blocks_of(next)), num_turns_(num_turns) {}

    void take_turn() {
      for (due_ += num_blocks_; due_ >= num_turns_; due_ -= num_turns_) {
        tiles_.unpack(next_, index_++);
      }
    }

   private:
    ManyTiles& tiles_;
    const Pass& next_;
    size_t num_blocks_;
    size_t num_turns_;
    size_t due_ = 0;
    size_t index_ = 0;
  };

  template <size_t kPanels>
  void multiply(const Pass& pass, const Pass& next) {
    const size_t num_tokens = tokens_.num_tokens();
    const size_t num_pairs = (num_tokens + 2 * kTileRows - 1) / (2 * kTileRows);
    const bool is_last = pass.first_step + pass.num_steps == num_steps();
    Ahead ahead(*this, next, num_pairs * pass.num_steps);
    for (size_t token = 0; token < num_tokens; token += 2 * kTileRows) {
      const bool is_pair = token + kTileRows < num_tokens;
      is_pair ? add_tiles<kPanels, 2>(pass, token, ahead)
              : add_tiles<kPanels, 1>(pass, token, ahead);
      if (!is_last) continue;
      finish<kPanels>(pass, token);
      if (is_pair) finish<kPanels>(pass, token + kTileRows);
    }
  }
  template <size_t kPanels>
  void finish(const Pass& pass, size_t token) const {
    tokens_.finish(token, pass.panel, kPanels, sums_of(pass, token, 0));
  }

  // Of a tile of tokens [kPanels][tokens][16]; of one chunk for a pair of panels after the other in
  // the same place. Rows that the last tile has too many are overwritten by the next panel's.
  float* sums_of(const Pass& pass, size_t token, size_t panel) const {
    const bool is_one_chunk = chunk_steps_ == num_steps();
    const size_t pair = is_one_chunk ? 0 : (pass.panel - panel_begin_) / 2;
    float* sums = static_cast<float*>(task_.scratch) + pair * amx_pair_sums(tokens_.num_tokens());
    return sums + (token * pass.num_panels + panel * tokens_.num_tokens_at(token)) * kLanes;
  }

  // Adds a pass's products to the sums of kTiles tiles of tokens.
  template <size_t kPanels, size_t kTiles>
  void add_tiles(const Pass& pass, size_t token, Ahead& ahead) {
    const Tile<Products>* weights[] = {weights_of(pass, 0), weights_of(pass, 1)};
    const Element* x = tokens_.inputs_at(token, pass.first_step);
    const size_t tile_size = task_.x_stride;
    const Element* x_below = x + num_steps() * tile_size;
    if (pass.first_step == 0) {
      each_sum<kTiles, kPanels>([]<int kTile>(size_t, size_t) { clear_tile<kTile>(); });
    } else {
      each_sum<kTiles, kPanels>([&]<int kTile>(size_t panel, size_t tile) {
        load_tile<kTile>(sums_of(pass, token + tile, panel), kTileRowBytes);
      });
    }
    for (size_t step = 0; step < pass.num_steps; ++step) {
      load_passing_tile<4>(x + step * tile_size, kTileRowBytes);
      if constexpr (kTiles == 2) load_passing_tile<5>(x_below + step * tile_size, kTileRowBytes);
      load_tile<6>(weights[0][step], kTileRowBytes);
      Products::template add<0, 4, 6>();
      if constexpr (kTiles == 2) Products::template add<1, 5, 6>();
      if constexpr (kPanels == 2) {
        load_tile<7>(weights[1][step], kTileRowBytes);
        Products::template add<kTiles, 4, 7>();
        if constexpr (kTiles == 2) Products::template add<3, 5, 7>();
      }
      ahead.take_turn();
    }
    each_sum<kTiles, kPanels>([&]<int kTile>(size_t panel, size_t tile) {
      store_tile<kTile>(sums_of(pass, token + tile, panel), kTileRowBytes);
    });
  }

  const LinearTask& task_;
  const BlockTokens<Weights>& tokens_;
  const size_t panel_begin_;
  const size_t panel_end_;
  const size_t chunk_steps_;
  const size_t pass_steps_;
  // Two passes of two panels, in the first cache.
  alignas(64) Tile<Products> weights_[4][kPassSteps];
};

}  // namespace
}  // namespace millrace
