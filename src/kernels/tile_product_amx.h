// The product of a packed matrix by the tiles of AMX (docs/decisions/0020), whatever the matrix
// holds: block_tokens_amx.h says what `Weights` has to know of it. See lanes.h
// for the rules of this file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/amx_tiles.h"
#include "kernels/block_tokens_amx.h"
#include "kernels/few_tiles_amx.h"
#include "kernels/linear_kernel.h"
#include "kernels/many_tiles_amx.h"
#include "kernels/token_blocks.h"

namespace millrace {
namespace {

// Tokens that all weights pass by at once.
constexpr TokenBlocks kBlocks = {
    .num_bytes_max = SIZE_MAX, .num_tokens_max = kAmxBlockTokens, .num_tile_tokens = kTileRows};

// Tiles of up to 16 tokens; FewTiles's weights fill theirs.
inline TileShapes shapes_for(size_t num_tokens) {
  TileShapes shapes;
  for (size_t tile = 0; tile < kNumTiles; ++tile) shapes.set(tile, num_tokens);
  shapes.set(kWeightTile, kTileRows);
  return shapes;
}

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
  const bool is_one_chunk = num_chunk_steps == tokens.num_steps();
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
  const size_t num_block_tokens = kBlocks.num_tokens_of(
      task.num_tokens, num_steps_of<typename Weights::Products>(task) * kTileRowBytes
  );
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
