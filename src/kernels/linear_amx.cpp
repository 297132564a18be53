#include <immintrin.h>

#include "kernels/amx_tiles.h"
#include "kernels/bfloat16_rows_kernel.h"
#include "kernels/lanes_avx512.h"
#include "kernels/linear_kernel.h"
#include "kernels/linear_lanes.h"
#include "kernels/packed_bfloat16_avx512.h"
#include "kernels/token_blocks.h"

namespace millrace {
namespace {

// What one instruction multiplies.
constexpr size_t kStepInputs = 32;
static_assert(kInputTileRows == kTileRows && kInputTileColumns == kStepInputs);
constexpr size_t kStepBlocks = kStepInputs / kPackedBlockColumns;
constexpr size_t kUnpackedBlock = kPackedBlockColumns * kLanes;

// Inputs whose weights are unpacked while those before them are multiplied, in steps. Few tokens
// are faster when both stay in the first cache, many when their sums are read and written less
// often: by loops with nothing else in them, 64, 128, 192 and 256 tokens took 0.9, 1.0, 1.1
// and 1.15 times as long in passes of 4 steps as in passes of 8.
constexpr size_t kPassSteps = 8;
constexpr size_t kShortPassSteps = 4;
constexpr size_t kShortPassTokens = 160;

// Tokens whose inputs stay in the second cache while all panels pass by.
constexpr TokenBlocks kBlocks = {
    .num_bytes_max = size_t{3} << 19, .num_tokens_max = 256, .num_tile_tokens = kTileRows};

// How far ahead hints ask for weights: 6 to 20 blocks are within 3 % of each other, 32 take 1.1
// times as long.
constexpr size_t kBlocksAhead = 12;

// All that the first cache is to hold.
constexpr size_t kStripsMax = 4;
struct Scratch {
  // Unpacked steps of as many panels: of up to four for few tokens; else of two, and of what is
  // next.
  alignas(64) BFloat16 weights[kStripsMax][kPassSteps][kTileBytes / sizeof(BFloat16)];
  // Of each tile [panels][tokens][16], and the rows that the last tile has too many.
  alignas(64) float sums[(2 * kBlocks.num_tokens_max + kTileRows) * kLanes];
};
static_assert(kStripsMax * kTileRows <= 2 * kBlocks.num_tokens_max);

size_t num_steps_of(const LinearTask& task) {
  return (task.num_inputs + kStepInputs - 1) / kStepInputs;
}

// An input of a task, which lie in tiles.
struct InputInTile {
  const LinearTask& task;

  float operator()(size_t token, size_t column) const {
    const size_t tile = token / kTileRows * num_steps_of(task) + column / kStepInputs;
    const size_t place = token % kTileRows * kStepInputs + column % kStepInputs;
    return widened(static_cast<const BFloat16*>(task.x)[tile * task.x_stride + place]);
  }
};

// Where the tiles of a block's tokens lie.
class BlockTokens {
 public:
  BlockTokens(const LinearTask& task, const TilePlace& block, Scratch& scratch)
      : task_(task), block_(block), scratch_(scratch) {}

  // `token`: a tile's first.
  const BFloat16* inputs_at(size_t token, size_t step) const {
    const size_t tile = (block_.token_begin + token) / kTileRows * num_steps_of(task_) + step;
    return static_cast<const BFloat16*>(task_.x) + tile * task_.x_stride;
  }

  size_t num_tokens_at(size_t token) const {
    const size_t rest = block_.num_tokens - token;
    return rest < kTileRows ? rest : kTileRows;
  }
  // Rows that a tile has too many are nobody's: linear.cpp's scratch has room for their inputs, and
  // those of one panel's sums are overwritten by the next.
  float* sums_of(size_t token, size_t panel, size_t num_panels) const {
    return scratch_.sums + (token * num_panels + panel * num_tokens_at(token)) * kLanes;
  }

  void finish(size_t token, size_t panel, size_t num_panels) const {
    const TilePlace place = {panel, num_panels, block_.token_begin + token, num_tokens_at(token)};
    float* sums = sums_of(token, 0, num_panels);
    if (task_.exceptions != nullptr) add_exceptions(task_, place, sums, InputInTile{task_});
    finish_tile<Avx512Lanes>(task_, place, sums);
  }

 private:
  const LinearTask& task_;
  const TilePlace block_;
  Scratch& scratch_;
};

// Block `index` of a panel, as tiles read it, and a hint for one further on: to the second-level
// cache, as those to the first take the few places for its own misses. Blocks past the last are
// zero.
[[gnu::always_inline]] inline void unpack_block_of(
    const LinearTask& task, size_t panel, size_t index, BFloat16* out
) {
  const uint8_t* data = static_cast<const uint8_t*>(task.weights) + panel * task.panel_size;
  const uint8_t* block = data + kPackedTableBytes + index * kPackedBlockBytes;
  if (index * kPackedBlockColumns >= task.num_inputs) {
    for (size_t i = 0; i < kUnpackedBlock; i += 32) {
      _mm512_storeu_si512(out + i, _mm512_setzero_si512());
    }
    return;
  }
  static_assert(kPackedBlockBytes == 3 * 64);
  const uint8_t* ahead = block + kBlocksAhead * kPackedBlockBytes;
  __builtin_prefetch(ahead, 0, 2);
  __builtin_prefetch(ahead + 64, 0, 2);
  __builtin_prefetch(ahead + 128, 0, 2);
  unpack_block(_mm512_loadu_si512(data), block, out);
}

// The registers of OneTile; 0 .. 3 are the sums.
constexpr int kInputTile = 4;
constexpr int kWeightTile = 5;

// Tiles of up to 16 tokens; OneTile's weights fill theirs.
TileShapes shapes_for(size_t num_tokens) {
  TileShapes shapes;
  for (size_t tile = 0; tile < kNumTiles; ++tile) shapes.set(tile, num_tokens);
  shapes.set(kWeightTile, kTileRows);
  return shapes;
}

// Up to 16 tokens, kPanels panels at a time. Each step is multiplied while the next is unpacked, so
// that reading goes on.
template <size_t kPanels>
class OneTile {
 public:
  OneTile(const LinearTask& task, const BlockTokens& tokens, Scratch& scratch)
      : task_(task), tokens_(tokens), scratch_(scratch) {}

  void run(size_t panel) const {
    clear_sums<0>();
    const size_t num_steps = num_steps_of(task_);
    unpack(panel, 0);
    for (size_t step = 1; step < num_steps; ++step) {
      unpack(panel, step);
      multiply(step - 1);
    }
    multiply(num_steps - 1);
    store_sums<0>();
    tokens_.finish(0, panel, kPanels);
  }

 private:
  // The panels side by side, as the processor goes on fetching ahead where a few streams go on.
  void unpack(size_t panel_begin, size_t step) const {
    for (size_t i = 0; i < kStepBlocks; ++i) {
#pragma GCC unroll 4
      for (size_t panel = 0; panel < kPanels; ++panel) {
        BFloat16* out = scratch_.weights[panel][step % kPassSteps] + i * kUnpackedBlock;
        unpack_block_of(task_, panel_begin + panel, step * kStepBlocks + i, out);
      }
    }
  }
  void multiply(size_t step) const {
    load_tile<kInputTile>(tokens_.inputs_at(0, step), kTileRowBytes);
    add_products<0>(step % kPassSteps);
  }
  template <int kPanel>
  [[gnu::always_inline]] void add_products(size_t slot) const {
    load_tile<kWeightTile>(scratch_.weights[kPanel][slot], kTileRowBytes);
    add_pair_products<kPanel, kInputTile, kWeightTile>();
    if constexpr (kPanel + 1 < kPanels) add_products<kPanel + 1>(slot);
  }
  template <int kPanel>
  [[gnu::always_inline]] void clear_sums() const {
    clear_tile<kPanel>();
    if constexpr (kPanel + 1 < kPanels) clear_sums<kPanel + 1>();
  }
  template <int kPanel>
  [[gnu::always_inline]] void store_sums() const {
    store_tile<kPanel>(tokens_.sums_of(0, kPanel, kPanels), kTileRowBytes);
    if constexpr (kPanel + 1 < kPanels) store_sums<kPanel + 1>();
  }

  const LinearTask& task_;
  const BlockTokens& tokens_;
  Scratch& scratch_;
};

// Some steps of one or two panels.
struct Pass {
  size_t panel;
  size_t num_panels;
  size_t first_step;
  size_t num_steps;
  size_t buffer;  // 0 or 1: where its weights are unpacked

  size_t num_blocks() const { return num_steps * kStepBlocks; }
};

// More than 16 tokens: two panels and two tiles of tokens at a time, all of them before the next
// steps. Meanwhile the weights of those are unpacked, a little after each step, which takes next to
// no time of its own: tiles are multiplied by another unit of the core. Registers: 0 .. 3 are the
// sums, 4 and 5 inputs, 6 and 7 weights.
class ManyTiles {
 public:
  ManyTiles(
      const LinearTask& task,
      const BlockTokens& tokens,
      size_t num_tokens,
      size_t panel_end,
      Scratch& scratch
  )
      : task_(task),
        tokens_(tokens),
        num_tokens_(num_tokens),
        panel_end_(panel_end),
        pass_steps_(num_tokens <= kShortPassTokens ? kShortPassSteps : kPassSteps),
        scratch_(scratch) {}

  void run(size_t panel_begin) const {
    Pass pass = pass_at(panel_begin, 0, 0);
    for (size_t i = 0; i < pass.num_blocks(); ++i) unpack(pass, i);
    while (pass.num_panels > 0) {
      const Pass next = pass_after(pass);
      pass.num_panels == 2 ? multiply<2>(pass, next) : multiply<1>(pass, next);
      pass = next;
    }
  }

 private:
  Pass pass_at(size_t panel, size_t first_step, size_t buffer) const {
    const size_t num_panels = panel_end_ - panel < 2 ? panel_end_ - panel : 2;
    const size_t rest = num_steps_of(task_) - first_step;
    return {panel, num_panels, first_step, rest < pass_steps_ ? rest : pass_steps_, buffer};
  }
  // One without panels after the last.
  Pass pass_after(const Pass& pass) const {
    const size_t step = pass.first_step + pass.num_steps;
    if (step < num_steps_of(task_)) return pass_at(pass.panel, step, 1 - pass.buffer);
    return pass_at(pass.panel + pass.num_panels, 0, 1 - pass.buffer);
  }

  using Tile = BFloat16[kTileBytes / sizeof(BFloat16)];
  Tile* weights_of(const Pass& pass, size_t panel) const {
    return scratch_.weights[2 * pass.buffer + panel];
  }
  // Block `index` of a pass, of each panel.
  void unpack(const Pass& pass, size_t index) const {
    for (size_t panel = 0; panel < pass.num_panels; ++panel) {
      BFloat16* out = weights_of(pass, panel)[0] + index * kUnpackedBlock;
      unpack_block_of(task_, pass.panel + panel, pass.first_step * kStepBlocks + index, out);
    }
  }

  // The blocks of the next pass, spread over the steps of this one.
  class Ahead {
   public:
    Ahead(const ManyTiles& tiles, const Pass& next, size_t num_turns)
        : tiles_(tiles),
          next_(next),
          num_blocks_(next.num_panels > 0 ? next.num_blocks() : 0),
          num_turns_(num_turns) {}

    void take_turn() {
      for (due_ += num_blocks_; due_ >= num_turns_; due_ -= num_turns_) {
        tiles_.unpack(next_, index_++);
      }
    }

   private:
    const ManyTiles& tiles_;
    const Pass& next_;
    size_t num_blocks_;
    size_t num_turns_;
    size_t due_ = 0;
    size_t index_ = 0;
  };

  template <size_t kPanels>
  void multiply(const Pass& pass, const Pass& next) const {
    const size_t num_pairs = (num_tokens_ + 2 * kTileRows - 1) / (2 * kTileRows);
    const bool is_last = pass.first_step + pass.num_steps == num_steps_of(task_);
    Ahead ahead(*this, next, num_pairs * pass.num_steps);
    for (size_t token = 0; token < num_tokens_; token += 2 * kTileRows) {
      const bool is_pair = token + kTileRows < num_tokens_;
      is_pair ? add_tiles<kPanels, 2>(pass, token, ahead)
              : add_tiles<kPanels, 1>(pass, token, ahead);
      if (!is_last) continue;
      tokens_.finish(token, pass.panel, kPanels);
      if (is_pair) tokens_.finish(token + kTileRows, pass.panel, kPanels);
    }
  }

  // Adds a pass's products to the sums of kTiles tiles of tokens.
  template <size_t kPanels, size_t kTiles>
  void add_tiles(const Pass& pass, size_t token, Ahead& ahead) const {
    const Tile* weights[] = {weights_of(pass, 0), weights_of(pass, 1)};
    const BFloat16* x = tokens_.inputs_at(token, pass.first_step);
    const size_t tile_size = task_.x_stride;
    const BFloat16* x_below = x + num_steps_of(task_) * tile_size;
    if (pass.first_step == 0) {
      each_sum<kPanels, kTiles>([]<int kTile>(size_t, size_t) { clear_tile<kTile>(); });
    } else {
      each_sum<kPanels, kTiles>([&]<int kTile>(size_t panel, size_t tile) {
        load_tile<kTile>(tokens_.sums_of(token + tile, panel, kPanels), kTileRowBytes);
      });
    }
    for (size_t step = 0; step < pass.num_steps; ++step) {
      load_tile<4>(x + step * tile_size, kTileRowBytes);
      if constexpr (kTiles == 2) load_tile<5>(x_below + step * tile_size, kTileRowBytes);
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
      store_tile<kTile>(tokens_.sums_of(token + tile, panel, kPanels), kTileRowBytes);
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
  const BlockTokens& tokens_;
  const size_t num_tokens_;
  const size_t panel_end_;
  const size_t pass_steps_;
  Scratch& scratch_;
};

template <size_t kPanels>
size_t run_one_tile(
    const LinearTask& task,
    const BlockTokens& tokens,
    size_t panel,
    size_t panel_end,
    Scratch& scratch
) {
  const OneTile<kPanels> product(task, tokens, scratch);
  for (; panel + kPanels <= panel_end; panel += kPanels) product.run(panel);
  return panel;
}

}  // namespace

void linear_amx(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  Scratch scratch;
  const size_t row_bytes = num_steps_of(task) * kTileRowBytes;
  const size_t num_block_tokens = kBlocks.num_tokens_of(task.num_tokens, row_bytes);
  for (size_t token = 0; token < task.num_tokens; token += num_block_tokens) {
    const size_t rest = task.num_tokens - token;
    const size_t num_tokens = rest < num_block_tokens ? rest : num_block_tokens;
    const BlockTokens tokens(task, {panel_begin, 0, token, num_tokens}, scratch);
    if (num_tokens > kTileRows) {
      const TileShapes shapes = shapes_for(kTileRows);
      const TileScope scope(shapes);
      ManyTiles(task, tokens, num_tokens, panel_end, scratch).run(panel_begin);
    } else {
      const TileShapes shapes = shapes_for(num_tokens);
      const TileScope scope(shapes);
      size_t panel = run_one_tile<4>(task, tokens, panel_begin, panel_end, scratch);
      panel = run_one_tile<2>(task, tokens, panel, panel_end, scratch);
      run_one_tile<1>(task, tokens, panel, panel_end, scratch);
    }
  }
}

}  // namespace millrace
