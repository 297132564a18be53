// The product of a packed matrix by the tiles of AMX, bfloat16 by bfloat16 (docs/decisions/0020),
// whatever the matrix holds. See lanes.h for the rules of this file. `Weights` says how a panel
// becomes tiles:
//
//   kBlockInputs       inputs that are unpacked at once: a divisor of 32
//   kPanelsAtOnce      panels that are read side by side where tokens are few: 1, 2 or 4
//   unpack(task, panel, index, num_panels, out)   block `index` of a panel as pairs of inputs,
//                      [kBlockInputs / 2][16][2]; zeros past the last input. Also asks for a block
//                      further on, hint_at() of so many panels: to the second-level cache, as hints
//                      to the first take the few places for its own misses
//   finish_sums(task, place, sums)    what a tile's sums lack after all its products
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/amx_tiles.h"
#include "kernels/bfloat16_rows_kernel.h"
#include "kernels/lanes_avx512.h"
#include "kernels/linear_kernel.h"
#include "kernels/linear_lanes.h"
#include "kernels/token_blocks.h"

namespace millrace {
namespace {

// What one instruction multiplies.
constexpr size_t kStepInputs = 32;
static_assert(kInputTileRows == kTileRows && kInputTileColumns == kStepInputs);

// Steps whose weights are unpacked while those before them are multiplied: sums are read and
// written once for all of them, and the first cache holds twice as many. Of few tokens it holds the
// sums as well, and half as many steps are faster: gate_up of 128 tokens takes 1.1 times as long by
// 16, of 512 tokens 1.15 times as long by 8.
constexpr size_t kPassSteps = 16;
constexpr size_t kShortPassSteps = 8;
constexpr size_t kShortPassTokens = 160;

// Tokens that all weights pass by at once, and what of their inputs stays in the second cache
// meanwhile.
constexpr TokenBlocks kBlocks = {
    .num_bytes_max = SIZE_MAX, .num_tokens_max = kAmxBlockTokens, .num_tile_tokens = kTileRows};
constexpr size_t kChunkBytes = size_t{3} << 19;

using Tile = BFloat16[kTileBytes / sizeof(BFloat16)];

inline size_t num_steps_of(const LinearTask& task) {
  return (task.num_inputs + kStepInputs - 1) / kStepInputs;
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
  for (size_t token = 0; token < place.num_tokens; ++token, out += kInputTileColumns) {
    const Avx512Lanes gate = tile_values<Avx512Lanes>(task, place, sums, 0, token);
    const Avx512Lanes up = tile_values<Avx512Lanes>(task, place, sums, 1, token);
    Avx512Lanes::store(out, Avx512Lanes::mul(silu_lanes(gate), up));
    if (is_last) Avx512Lanes::store(out + kLanes, Avx512Lanes::zero());
  }
}

// Tokens that all weights pass by at once.
template <class Weights>
class BlockTokens {
 public:
  BlockTokens(const LinearTask& task, size_t token_begin, size_t num_tokens)
      : task_(task), token_begin_(token_begin), num_tokens_(num_tokens) {}

  size_t num_tokens() const { return num_tokens_; }

  // `token`: a tile's first.
  const BFloat16* inputs_at(size_t token, size_t step) const {
    const size_t tile = (token_begin_ + token) / kTileRows * num_steps_of(task_) + step;
    return static_cast<const BFloat16*>(task_.x) + tile * task_.x_stride;
  }
  size_t num_tokens_at(size_t token) const {
    const size_t rest = num_tokens_ - token;
    return rest < kTileRows ? rest : kTileRows;
  }

  // Before finish() of all tokens.
  void ask_for_outputs(size_t panel, size_t num_panels) const {
    if (task_.out_tiles != nullptr) return;
    millrace::ask_for_outputs(task_, {panel, num_panels, token_begin_, num_tokens_});
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

// The registers of FewTiles; 0 .. 3 are the sums, 4 and 5 inputs.
constexpr int kInputTile = 4;
constexpr int kWeightTile = 6;

// Tiles of up to 16 tokens; FewTiles's weights fill theirs.
inline TileShapes shapes_for(size_t num_tokens) {
  TileShapes shapes;
  for (size_t tile = 0; tile < kNumTiles; ++tile) shapes.set(tile, num_tokens);
  shapes.set(kWeightTile, kTileRows);
  return shapes;
}

// kTiles tiles of up to 16 tokens, kPanels panels at a time. Each step is multiplied while the next
// is unpacked, so that reading goes on.
template <class Weights, size_t kTiles, size_t kPanels>
class FewTiles {
 public:
  FewTiles(const LinearTask& task, const BlockTokens<Weights>& tokens)
      : task_(task), tokens_(tokens) {}

  // Panels [panel, panel_end), a multiple of kPanels.
  void run(size_t panel, size_t panel_end) {
    if (panel == panel_end) return;
    unpack(panel, 0);
    for (; panel < panel_end; panel += kPanels) {
      tokens_.ask_for_outputs(panel, kPanels);
      each_sum([]<int kSum>(size_t, size_t) { clear_tile<kSum>(); });
      multiply_panels<0>(panel, panel_end);
      each_sum([&]<int kSum>(size_t i, size_t tile) {
        store_tile<kSum>(sums_of(tile) + i * tokens_.num_tokens_at(tile) * kLanes, kTileRowBytes);
      });
      for (size_t tile = 0; tile < kTiles; ++tile) {
        tokens_.finish(tile * kTileRows, panel, kPanels, sums_of(tile * kTileRows));
      }
    }
  }

 private:
  // Panels from `panel` on, some of them at once, into the sums from kFirst on. Their first step is
  // unpacked already, and so is in the end that of the panels after them.
  template <size_t kFirst>
  void multiply_panels(size_t panel, size_t panel_end) {
    const size_t num_steps = num_steps_of(task_);
    const size_t next = panel + kAtOnce;
    for (size_t step = 0; step + 1 < num_steps; ++step) {
      unpack(panel, step + 1);
      multiply<kFirst>(step);
    }
    if (next < panel_end) unpack(next, 0);
    multiply<kFirst>(num_steps - 1);
    if constexpr (kFirst + kAtOnce < kPanels) multiply_panels<kFirst + kAtOnce>(next, panel_end);
  }
  // The panels side by side, as the processor goes on fetching ahead where a few streams go on.
  void unpack(size_t panel_begin, size_t step) {
    constexpr size_t kStepBlocks = kStepInputs / Weights::kBlockInputs;
    const size_t slot = num_unpacked_++ % kSlots;
    for (size_t i = 0; i < kStepBlocks; ++i) {
#pragma GCC unroll 4
      for (size_t panel = 0; panel < kAtOnce; ++panel) {
        BFloat16* out = weights_[panel][slot] + i * Weights::kBlockInputs * kLanes;
        Weights::unpack(task_, panel_begin + panel, step * kStepBlocks + i, kAtOnce, out);
      }
    }
  }
  template <size_t kFirst>
  void multiply(size_t step) {
    load_tile<kInputTile>(tokens_.inputs_at(0, step), kTileRowBytes);
    if constexpr (kTiles == 2) {
      load_tile<kInputTile + 1>(tokens_.inputs_at(kTileRows, step), kTileRowBytes);
    }
    add_products<kFirst, 0>(num_multiplied_++ % kSlots);
  }
  template <size_t kFirst, size_t kPanel>
  [[gnu::always_inline]] void add_products(size_t slot) {
    load_tile<kWeightTile>(weights_[kPanel][slot], kTileRowBytes);
    constexpr int kSum = static_cast<int>((kFirst + kPanel) * kTiles);
    add_pair_products<kSum, kInputTile, kWeightTile>();
    if constexpr (kTiles == 2) add_pair_products<kSum + 1, kInputTile + 1, kWeightTile>();
    if constexpr (kPanel + 1 < kAtOnce) add_products<kFirst, kPanel + 1>(slot);
  }
  // Calls function.operator()<register>(panel, first token of the tile). In this order rows that a
  // tile has too many are overwritten by the next panel's.
  template <int kSum = 0, class Function>
  [[gnu::always_inline]] static void each_sum(const Function& function) {
    function.template operator()<kSum>(kSum / kTiles, kSum % kTiles * kTileRows);
    if constexpr (kSum + 1 < kTiles * kPanels) each_sum<kSum + 1>(function);
  }
  // Of the tile with that token: [kPanels][tokens][16].
  float* sums_of(size_t token) {
    return sums_ + token * kPanels * kLanes;
  }

  static constexpr size_t kAtOnce =
      kPanels < Weights::kPanelsAtOnce ? kPanels : Weights::kPanelsAtOnce;
  // Of steps that are unpacked; one too few would do.
  static constexpr size_t kSlots = 4;

  const LinearTask& task_;
  const BlockTokens<Weights>& tokens_;
  size_t num_unpacked_ = 0;
  size_t num_multiplied_ = 0;
  alignas(64) Tile weights_[kAtOnce][kSlots];
  alignas(64) float sums_[kTiles * kPanels * kTileRows * kLanes];
};

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
    return part_of(num_steps_of(task), most);
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

  // The steps of first_step's chunk end here.
  size_t chunk_end(size_t first_step) const {
    const size_t end = (first_step / chunk_steps_ + 1) * chunk_steps_;
    return end < num_steps_of(task_) ? end : num_steps_of(task_);
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
    if (end < num_steps_of(task_)) return pass_at(panel_begin_, end, buffer);
    return {.panel = panel_end_, .num_panels = 0, .first_step = 0, .num_steps = 0, .buffer = 0};
  }

  static constexpr size_t kStepBlocks = kStepInputs / Weights::kBlockInputs;
  static size_t num_blocks_of(const Pass& pass) { return pass.num_steps * kStepBlocks; }

  Tile* weights_of(const Pass& pass, size_t panel) { return weights_[2 * pass.buffer + panel]; }
  // Block `index` of a pass, of each panel.
  void unpack(const Pass& pass, size_t index) {
    for (size_t panel = 0; panel < pass.num_panels; ++panel) {
      BFloat16* out = weights_of(pass, panel)[0] + index * Weights::kBlockInputs * kLanes;
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
    const bool is_last = pass.first_step + pass.num_steps == num_steps_of(task_);
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
    const bool is_one_chunk = chunk_steps_ == num_steps_of(task_);
    const size_t pair = is_one_chunk ? 0 : (pass.panel - panel_begin_) / 2;
    float* sums = static_cast<float*>(task_.scratch) + pair * amx_pair_sums(tokens_.num_tokens());
    return sums + (token * pass.num_panels + panel * tokens_.num_tokens_at(token)) * kLanes;
  }

  // Adds a pass's products to the sums of kTiles tiles of tokens.
  template <size_t kPanels, size_t kTiles>
  void add_tiles(const Pass& pass, size_t token, Ahead& ahead) {
    const Tile* weights[] = {weights_of(pass, 0), weights_of(pass, 1)};
    const BFloat16* x = tokens_.inputs_at(token, pass.first_step);
    const size_t tile_size = task_.x_stride;
    const BFloat16* x_below = x + num_steps_of(task_) * tile_size;
    if (pass.first_step == 0) {
      each_sum<kPanels, kTiles>([]<int kTile>(size_t, size_t) { clear_tile<kTile>(); });
    } else {
      each_sum<kPanels, kTiles>([&]<int kTile>(size_t panel, size_t tile) {
        load_tile<kTile>(sums_of(pass, token + tile, panel), kTileRowBytes);
      });
    }
    for (size_t step = 0; step < pass.num_steps; ++step) {
      load_passing_tile<4>(x + step * tile_size, kTileRowBytes);
      if constexpr (kTiles == 2) load_passing_tile<5>(x_below + step * tile_size, kTileRowBytes);
      load_tile<6>(weights[0][step], kTileRowBytes);
      add_pair_products<0, 4, 6>();
      if constexpr (kTiles == 2) add_pair_products<1, 5, 6>();
      if constexpr (kPanels == 2) {
        load_tile<7>(weights[1][step], kTileRowBytes);
        add_pair_products<2, 4, 7>();
        if constexpr (kTiles == 2) add_pair_products<3, 5, 7>();
      }
      ahead.take_turn();
    }
    each_sum<kPanels, kTiles>([&]<int kTile>(size_t panel, size_t tile) {
      store_tile<kTile>(sums_of(pass, token + tile, panel), kTileRowBytes);
    });
  }
  // Calls function.operator()<register>(panel, first token of the tile).
  template <size_t kPanels, size_t kTiles, class Function>
  [[gnu::always_inline]] static void each_sum(const Function& function) {
    function.template operator()<0>(0, 0);
    if constexpr (kPanels == 2) function.template operator()<2>(1, 0);
    if constexpr (kTiles == 2) function.template operator()<1>(0, kTileRows);
    if constexpr (kTiles == 2 && kPanels == 2) function.template operator()<3>(1, kTileRows);
  }

  const LinearTask& task_;
  const BlockTokens<Weights>& tokens_;
  const size_t panel_begin_;
  const size_t panel_end_;
  const size_t chunk_steps_;
  const size_t pass_steps_;
  // Two passes of two panels, in the first cache.
  alignas(64) Tile weights_[4][kPassSteps];
};

template <class Weights, size_t kTiles, size_t kPanels>
size_t run_few_tiles(
    const LinearTask& task, const BlockTokens<Weights>& tokens, size_t panel, size_t panel_end
) {
  const size_t end = panel + (panel_end - panel) / kPanels * kPanels;
  FewTiles<Weights, kTiles, kPanels>(task, tokens).run(panel, end);
  return end;
}

template <class Weights>
void run_one_tile(
    const LinearTask& task, const BlockTokens<Weights>& tokens, size_t panel, size_t panel_end
) {
  if constexpr (Weights::kPanelsAtOnce == 4) {
    panel = run_few_tiles<Weights, 1, 4>(task, tokens, panel, panel_end);
  }
  panel = run_few_tiles<Weights, 1, 2>(task, tokens, panel, panel_end);
  run_few_tiles<Weights, 1, 1>(task, tokens, panel, panel_end);
}

template <class Weights>
void run_two_tiles(
    const LinearTask& task, const BlockTokens<Weights>& tokens, size_t panel, size_t panel_end
) {
  panel = run_few_tiles<Weights, 2, 2>(task, tokens, panel, panel_end);
  run_few_tiles<Weights, 2, 1>(task, tokens, panel, panel_end);
}

template <class Weights>
void run_many_tiles(
    const LinearTask& task, const BlockTokens<Weights>& tokens, size_t panel_begin, size_t panel_end
) {
  using Product = ManyTiles<Weights>;
  const size_t num_chunk_steps = Product::chunk_steps_for(task, tokens.num_tokens());
  const bool is_one_chunk = num_chunk_steps == num_steps_of(task);
  const size_t num_panels = is_one_chunk ? panel_end - panel_begin : kAmxGroupPanels;
  for (size_t panel = panel_begin; panel < panel_end; panel += num_panels) {
    const size_t rest = panel_end - panel;
    Product(task, tokens, panel, panel + (rest < num_panels ? rest : num_panels)).run();
  }
}

// Panels [panel_begin, panel_end), both even for kSiluMul. `task`: its inputs are tiles, its
// scratch holds amx_scratch_bytes(num_tokens).
template <class Weights>
void multiply_by_tiles(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  const size_t num_block_tokens =
      kBlocks.num_tokens_of(task.num_tokens, num_steps_of(task) * kTileRowBytes);
  for (size_t token = 0; token < task.num_tokens; token += num_block_tokens) {
    const size_t rest = task.num_tokens - token;
    const size_t num_tokens = rest < num_block_tokens ? rest : num_block_tokens;
    const BlockTokens<Weights> tokens(task, token, num_tokens);
    const TileShapes shapes = shapes_for(num_tokens < kTileRows ? num_tokens : kTileRows);
    const TileScope scope(shapes);
    if (num_tokens <= kTileRows) {
      run_one_tile(task, tokens, panel_begin, panel_end);
    } else if (num_tokens <= 2 * kTileRows) {
      run_two_tiles(task, tokens, panel_begin, panel_end);
    } else {
      run_many_tiles(task, tokens, panel_begin, panel_end);
    }
  }
}

}  // namespace
}  // namespace millrace
