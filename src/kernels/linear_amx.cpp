#include <immintrin.h>

#include "kernels/amx_tiles.h"
#include "kernels/lanes_avx512.h"
#include "kernels/linear_kernel.h"
#include "kernels/linear_lanes.h"
#include "kernels/packed_bfloat16_avx512.h"

namespace millrace {
namespace {

// Inputs that one instruction multiplies, and those whose weights stay in the first cache while the
// tokens pass by: of four panels 32 KB.
constexpr size_t kStepInputs = 32;
constexpr size_t kPassSteps = 8;
constexpr size_t kPassInputs = kPassSteps * kStepInputs;
constexpr size_t kPassBlocks = kPassInputs / kPackedBlockColumns;
constexpr size_t kUnpackedBlock = kPackedBlockColumns * kLanes;
constexpr size_t kTilePanels = 4;
// Tokens whose inputs and sums stay in the second cache while all panels pass by.
constexpr size_t kBlockInputBytes = size_t{1} << 20;
constexpr size_t kBlockTokensMax = 256;

// Up to so many tokens take less time than memory does, and ask for weights while they unpack; more
// do so while they multiply.
constexpr size_t kShortTokens = 32;
// How far ahead: 6 to 20 blocks are within 3 % of each other, 32 take 1.1 times as long.
constexpr size_t kTileBlocksAhead = 12;

// The registers: 0 .. 3 are the sums of the panels; then those of a step, and those of the last
// step of a row, which may have fewer inputs.
constexpr int kInputTile = 4;
constexpr int kWeightTile = 5;
constexpr int kLastInputTile = 6;
constexpr int kLastWeightTile = 7;

// To the second-level cache, as hints to the first take the few places for its own misses.
[[gnu::always_inline]] inline void ask_for_block(const uint8_t* block) {
  static_assert(kPackedBlockBytes == 3 * 64);
  __builtin_prefetch(block, 0, 2);
  __builtin_prefetch(block + 64, 0, 2);
  __builtin_prefetch(block + 128, 0, 2);
}

struct Scratch {
  alignas(64) BFloat16 weights[kTilePanels][kPassSteps][kTileBytes / sizeof(BFloat16)];
  // Of each tile [panels][tokens][16], and the rows that the last tile has too many.
  alignas(64) float sums[(kTilePanels * kBlockTokensMax + kTileRows) * kLanes];
};

// What add_exceptions() reads.
struct PairInputs {
  using Input = BFloat16;
};

// What of a row's inputs a pass takes.
struct Pass {
  size_t first_input;
  size_t num_inputs;
};

// kPanels panels for a block of tokens, a tile of up to 16 of them after the other in each pass.
template <size_t kPanels>
class BlockProduct {
 public:
  BlockProduct(const LinearTask& task, const TilePlace& block, Scratch& scratch)
      : task_(task), block_(block), scratch_(scratch) {}

  void run() const {
    if (block_.num_tokens <= kTileRows) return run_one_tile();
    const bool is_short = block_.num_tokens <= kShortTokens;
    for (size_t first = 0; first < task_.num_inputs; first += kPassInputs) {
      const size_t rest = task_.num_inputs - first;
      const Pass pass = {first, rest < kPassInputs ? rest : kPassInputs};
      const size_t first_block = first / kPackedBlockColumns;
      unpack({first_block, num_blocks_for(pass.num_inputs)}, 0, is_short);
      const uint8_t* ahead = weights_after(pass);
      for (size_t token = 0; token < block_.num_tokens; token += kTileRows) {
        add_tile(pass, token);
        if (!is_short) ask_for_share(ahead, token);
      }
    }
    for (size_t token = 0; token < block_.num_tokens; token += kTileRows) finish(token);
  }

 private:
  size_t num_tokens_at(size_t token) const {
    const size_t rest = block_.num_tokens - token;
    return rest < kTileRows ? rest : kTileRows;
  }
  float* sums_of(size_t token, size_t panel) const {
    return scratch_.sums + (token * kPanels + panel * num_tokens_at(token)) * kLanes;
  }
  const uint8_t* panel_at(size_t panel) const {
    return static_cast<const uint8_t*>(task_.weights) +
           (block_.panel_begin + panel) * task_.panel_size;
  }

  struct Blocks {
    size_t first;
    size_t count;
  };
  static size_t num_blocks_for(size_t num_inputs) {
    return (num_inputs + kPackedBlockColumns - 1) / kPackedBlockColumns;
  }

  // Each step is multiplied while the next is unpacked, so that reading goes on.
  void run_one_tile() const {
    clear_sums<0>();
    for (size_t first = 0; first < task_.num_inputs; first += kStepInputs) {
      const size_t rest = task_.num_inputs - first;
      const size_t count = rest < kStepInputs ? rest : kStepInputs;
      const size_t step = first / kStepInputs;
      const size_t first_block = first / kPackedBlockColumns;
      unpack({first_block, num_blocks_for(count)}, step % kPassSteps, true);
      if (step > 0) multiply_step(inputs_at(0, first - kStepInputs), (step - 1) % kPassSteps, true);
    }
    const size_t last = (task_.num_inputs - 1) / kStepInputs;
    const bool is_whole = task_.num_inputs % kStepInputs == 0;
    multiply_step(inputs_at(0, last * kStepInputs), last % kPassSteps, is_whole);
    store_sums<0>(0);
    finish(0);
  }

  // To the place of step `slot` and those behind it. The panels side by side, as the processor goes
  // on fetching ahead where a few streams go on; `asks`: with hints for what lies further on.
  void unpack(const Blocks& blocks, size_t slot, bool asks) const {
    const uint8_t* first = panel_at(0) + kPackedTableBytes + blocks.first * kPackedBlockBytes;
    for (size_t i = 0; i < blocks.count; ++i) {
#pragma GCC unroll 4
      for (size_t panel = 0; panel < kPanels; ++panel) {
        const uint8_t* block = first + panel * task_.panel_size + i * kPackedBlockBytes;
        if (asks) ask_for_block(block + kTileBlocksAhead * kPackedBlockBytes);
        const __m512i table = _mm512_loadu_si512(panel_at(panel));
        unpack_block(table, block, scratch_.weights[panel][slot] + i * kUnpackedBlock);
      }
    }
  }

  const BFloat16* inputs_at(size_t token, size_t input) const {
    return static_cast<const BFloat16*>(task_.x) + (block_.token_begin + token) * task_.x_stride +
           input;
  }

  // Adds a pass's products to the sums of the tokens from `token` on. Rows that the tile has too
  // many are nobody's: linear.cpp's scratch has room for their inputs, and those of one panel's
  // sums are overwritten by the next.
  void add_tile(const Pass& pass, size_t token) const {
    const size_t num_steps = pass.num_inputs / kStepInputs;
    const BFloat16* x = inputs_at(token, pass.first_input);
    if (pass.first_input == 0) {
      clear_sums<0>();
    } else {
      load_sums<0>(token);
    }
    for (size_t step = 0; step < num_steps; ++step)
      multiply_step(x + step * kStepInputs, step, true);
    if (pass.num_inputs % kStepInputs != 0) {
      multiply_step(x + num_steps * kStepInputs, num_steps, false);
    }
    store_sums<0>(token);
  }
  [[gnu::always_inline]] void multiply_step(const BFloat16* x, size_t slot, bool is_whole) const {
    const size_t stride = task_.x_stride * sizeof(BFloat16);
    if (is_whole) {
      load_tile<kInputTile>(x, stride);
      multiply<0, kInputTile, kWeightTile>(slot);
    } else {
      load_tile<kLastInputTile>(x, stride);
      multiply<0, kLastInputTile, kLastWeightTile>(slot);
    }
  }
  template <int kPanel>
  [[gnu::always_inline]] void clear_sums() const {
    clear_tile<kPanel>();
    if constexpr (kPanel + 1 < kPanels) clear_sums<kPanel + 1>();
  }
  template <int kPanel>
  [[gnu::always_inline]] void load_sums(size_t token) const {
    load_tile<kPanel>(sums_of(token, kPanel), kTileRowBytes);
    if constexpr (kPanel + 1 < kPanels) load_sums<kPanel + 1>(token);
  }
  template <int kPanel, int kInputs, int kWeights>
  [[gnu::always_inline]] void multiply(size_t step) const {
    load_tile<kWeights>(scratch_.weights[kPanel][step], kTileRowBytes);
    add_pair_products<kPanel, kInputs, kWeights>();
    if constexpr (kPanel + 1 < kPanels) multiply<kPanel + 1, kInputs, kWeights>(step);
  }
  template <int kPanel>
  [[gnu::always_inline]] void store_sums(size_t token) const {
    store_tile<kPanel>(sums_of(token, kPanel), kTileRowBytes);
    if constexpr (kPanel + 1 < kPanels) store_sums<kPanel + 1>(token);
  }

  // What the next pass unpacks: of these panels, or the beginning of the next ones. Past the last
  // panel hints ask for what nobody reads.
  const uint8_t* weights_after(const Pass& pass) const {
    const size_t next = pass.first_input + kPassInputs;
    if (next >= task_.num_inputs) return panel_at(kPanels) + kPackedTableBytes;
    return panel_at(0) + kPackedTableBytes + next / kPackedBlockColumns * kPackedBlockBytes;
  }
  // One tile's share of it.
  void ask_for_share(const uint8_t* ahead, size_t token) const {
    const size_t begin = kPassBlocks * token / block_.num_tokens;
    const size_t end = kPassBlocks * (token + num_tokens_at(token)) / block_.num_tokens;
    for (size_t i = begin; i < end; ++i) {
      for (size_t panel = 0; panel < kPanels; ++panel) {
        ask_for_block(ahead + panel * task_.panel_size + i * kPackedBlockBytes);
      }
    }
  }

  void finish(size_t token) const {
    const TilePlace place = {
        block_.panel_begin, kPanels, block_.token_begin + token, num_tokens_at(token)};
    float* sums = sums_of(token, 0);
    if (task_.exceptions != nullptr) add_exceptions<PairInputs>(task_, place, sums);
    finish_tile<Avx512Lanes>(task_, place, sums);
  }

  const LinearTask& task_;
  const TilePlace block_;
  Scratch& scratch_;
};

// Returns the first panel not done.
template <size_t kPanels>
size_t run_panels_of_block(
    const LinearTask& task, TilePlace block, size_t panel_end, Scratch& scratch
) {
  for (; block.panel_begin + kPanels <= panel_end; block.panel_begin += kPanels) {
    BlockProduct<kPanels>(task, block, scratch).run();
  }
  return block.panel_begin;
}

TileShapes shapes_for(const LinearTask& task) {
  TileShapes shapes;
  const size_t num_rows = task.num_tokens < kTileRows ? task.num_tokens : kTileRows;
  const size_t num_last_pairs = (task.num_inputs % kStepInputs + 1) / 2;
  for (size_t panel = 0; panel < kTilePanels; ++panel) shapes.set(panel, num_rows);
  shapes.set(kInputTile, num_rows);
  shapes.set(kWeightTile, kTileRows);
  if (num_last_pairs > 0) {
    shapes.set(kLastInputTile, num_rows, num_last_pairs * 2 * sizeof(BFloat16));
    shapes.set(kLastWeightTile, num_last_pairs);
  }
  return shapes;
}

}  // namespace

void linear_amx(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  const TileShapes shapes = shapes_for(task);
  const TileScope scope(shapes);
  Scratch scratch;
  const size_t fitting = kBlockInputBytes / (task.x_stride * sizeof(BFloat16)) / kTileRows;
  const size_t tiles_max = fitting < 1 ? 1 : fitting;
  const size_t tokens_max =
      tiles_max * kTileRows < kBlockTokensMax ? tiles_max * kTileRows : kBlockTokensMax;
  for (size_t token = 0; token < task.num_tokens; token += tokens_max) {
    const size_t rest = task.num_tokens - token;
    TilePlace block = {panel_begin, 0, token, rest < tokens_max ? rest : tokens_max};
    block.panel_begin = run_panels_of_block<kTilePanels>(task, block, panel_end, scratch);
    block.panel_begin = run_panels_of_block<2>(task, block, panel_end, scratch);
    run_panels_of_block<1>(task, block, panel_end, scratch);
  }
}

}  // namespace millrace
