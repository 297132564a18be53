// Packed panels of bfloat16 times a few tokens with AVX-512, the weights unpacked in registers. See
// lanes.h for the rules of this file. A type `Pairs` says how the inputs of a pair are multiplied:
//
//   Input                        of the rows of inputs: BFloat16, or float
//   Weights, weights_of(pair)    of unpack_pair(), as they are multiplied
//   broadcast(p)                 two inputs
//   add(weights, inputs, sums)
#pragma once

#include <immintrin.h>

#include "kernels/lanes_avx512.h"
#include "kernels/linear_kernel.h"
#include "kernels/linear_lanes.h"
#include "kernels/packed_bfloat16_avx512.h"
#include "kernels/packed_bfloat16_hints.h"
#include "kernels/token_rows_lanes.h"

namespace millrace {
namespace {

// How far ahead memory is asked for few tokens, and for many where LinearTask::hint_bytes is 0. The
// processor's own prefetching begins anew with each panel, and a hint to the second-level cache,
// unlike one to the first, takes none of the few places for the first one's misses. With 896 inputs
// on one Zen 4 core four panels for four tokens read at 0.94 of what reading alone gives, with 8
// blocks at 0.81, without hints at 0.71.
constexpr size_t kHintBytes = 16 * kPackedBlockBytes;

// Whether a tile asks for weights, and for which cache.
enum class Hints { kNone, kSecondCache, kFirstCache };

struct PanelPlace {
  size_t begin;
  size_t stride;  // panels from one of the tile to the next
};

// kPanels packed panels times kTokens tokens, block by block: the weights are unpacked in
// registers, once for all tokens. Of each pair: sums += odd weight * odd input, then += even weight
// * even input, each rounded once.
template <class Pairs, size_t kPanels, size_t kTokens>
class PackedTile {
 public:
  [[gnu::always_inline]] PackedTile(const LinearTask& task, PanelPlace place, size_t token_begin)
      : inputs_{{}, task.x_stride * sizeof(Input)} {
    inputs_.begin_at(static_cast<const unsigned char*>(task.x) + token_begin * inputs_.stride);
    const auto* data = static_cast<const uint8_t*>(task.weights) + place.begin * task.panel_size;
#pragma GCC unroll 8
    for (size_t panel = 0; panel < kPanels; ++panel, data += place.stride * task.panel_size) {
      tables_[panel] = _mm512_loadu_si512(data);
      blocks_[panel] = data + kPackedTableBytes;
#pragma GCC unroll 12
      for (size_t token = 0; token < kTokens; ++token) sums_[panel][token] = Avx512Lanes::zero();
    }
  }

  // The next blocks of every panel. Asks for those `ahead` bytes further on.
  template <Hints kHints>
  [[gnu::always_inline]] void add_blocks(size_t num_blocks, size_t ahead = 0) {
    for (size_t i = 0; i < num_blocks; ++i) {
      forget_origins();
      __m512i codes[kPanels];
#pragma GCC unroll 8
      for (size_t panel = 0; panel < kPanels; ++panel) {
        const uint8_t* block = blocks_[panel];
        codes[panel] = _mm512_loadu_si512(block);
        if constexpr (kHints == Hints::kFirstCache) ask_for_block<3>(block + ahead);
        if constexpr (kHints == Hints::kSecondCache) ask_for_block<2>(block + ahead);
      }
      add_pair<0>(codes);
      add_pair<1>(codes);
      add_pair<2>(codes);
      add_pair<3>(codes);
#pragma GCC unroll 8
      for (const uint8_t*& block : blocks_) block += kPackedBlockBytes;
      inputs_.advance(kPackedBlockColumns * sizeof(Input));
    }
  }

  // `out`: [kPanels][kTokens][16], panels `stride` apart.
  [[gnu::always_inline]] void store(float* out, size_t stride) const {
#pragma GCC unroll 8
    for (size_t panel = 0; panel < kPanels; ++panel) {
#pragma GCC unroll 12
      for (size_t token = 0; token < kTokens; ++token) {
        Avx512Lanes::store(out + panel * stride + token * kLanes, sums_[panel][token]);
      }
    }
  }

 private:
  using Input = typename Pairs::Input;

  // Of few tokens all addresses fit the registers.
  [[gnu::always_inline]] void forget_origins() {
    if constexpr (kTokens > 4) {
      inputs_.forget_origins();
#pragma GCC unroll 8
      for (const uint8_t*& block : blocks_) forget_origin(block);
    }
  }

  // An input is broadcast for all panels and then forgotten: registers are for the sums.
  template <int kPair>
  [[gnu::always_inline]] void add_pair(const __m512i (&codes)[kPanels]) {
    typename Pairs::Weights weights[kPanels];
#pragma GCC unroll 8
    for (size_t panel = 0; panel < kPanels; ++panel) {
      const uint8_t* rests = blocks_[panel] + kPackedCodeBytes;
      weights[panel] = Pairs::weights_of(unpack_pair<kPair>(tables_[panel], codes[panel], rests));
    }
#pragma GCC unroll 12
    for (size_t token = 0; token < kTokens; ++token) {
      const auto inputs = Pairs::broadcast(inputs_.row(token) + kPair * 2 * sizeof(Input));
#pragma GCC unroll 8
      for (size_t panel = 0; panel < kPanels; ++panel) {
        Pairs::add(weights[panel], inputs, sums_[panel][token]);
      }
    }
  }

  const uint8_t* blocks_[kPanels];  // the next one of each panel
  TokenRows<kTokens> inputs_;       // its inputs
  __m512i tables_[kPanels];
  Avx512Lanes sums_[kPanels][kTokens];  // in registers: every index is known when compiling
};

inline size_t num_blocks_of(const LinearTask& task) {
  return (task.num_inputs + kPackedBlockColumns - 1) / kPackedBlockColumns;
}

// As linear_lanes.h wants it.
template <class Pairs, Hints kHints>
struct PackedPairs {
  using Input = typename Pairs::Input;

  template <size_t kPanels, size_t kTokens>
  static void sum_tile(const LinearTask& task, size_t panel_begin, size_t token_begin, float* out) {
    const size_t hint_bytes = kHints == Hints::kFirstCache ? task.hint_bytes : kHintBytes;
    const size_t num_blocks = num_blocks_of(task);
    const size_t num_ahead = hint_bytes / kPackedBlockBytes;
    const size_t num_last = num_blocks < num_ahead ? num_blocks : num_ahead;
    PackedTile<Pairs, kPanels, kTokens> tile(task, {panel_begin, 1}, token_begin);
    // The last blocks of a panel ask for the first ones of the panel that follows the tile's.
    size_t ahead = hint_bytes;
    for (const size_t count : {num_blocks - num_last, num_last}) {
      tile.template add_blocks<kHints>(count, ahead);
      ahead += (kPanels - 1) * task.panel_size;
    }
    tile.store(out, kTokens * kLanes);
  }
};

// One or two tokens take less time than memory does, catch up with such hints and lose some, so
// they leave the prefetching to the processor, which is good at it as long as nothing begins anew:
// a thread's panels are cut into four stretches, read side by side, each from its beginning to its
// end. (896 inputs, one token: 1.0 of what reading alone gives; panels that follow each other 0.8.)
constexpr size_t kStretches = 4;
constexpr size_t kStretchTokensMax = 2;

// Returns the first panel not done.
template <class Pairs, size_t kTokens = 1>
size_t run_stretches(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  if constexpr (kTokens < kStretchTokensMax) {
    if (task.num_tokens > kTokens) {
      return run_stretches<Pairs, kTokens + 1>(task, panel_begin, panel_end);
    }
  }
  constexpr size_t kPanelSums = kTokens * kLanes;
  const size_t unit = task.epilogue == LinearEpilogue::kSiluMul ? 2 : 1;  // panels that go together
  const size_t stretch = (panel_end - panel_begin) / (kStretches * unit) * unit;
  for (size_t panel = panel_begin; panel < panel_begin + stretch; panel += unit) {
    alignas(64) float sums[kStretches][2 * kPanelSums];
    for (size_t i = 0; i < kStretches; ++i) {
      ask_for_outputs(task, {panel + i * stretch, unit, 0, kTokens});
    }
    for (size_t i = 0; i < unit; ++i) {
      PackedTile<Pairs, kStretches, kTokens> tile(task, {panel + i, stretch}, 0);
      tile.template add_blocks<Hints::kNone>(num_blocks_of(task));
      tile.store(sums[0] + i * kPanelSums, 2 * kPanelSums);
    }
    for (size_t i = 0; i < kStretches; ++i) {
      const TilePlace place = {panel + i * stretch, unit, 0, kTokens};
      if (task.exceptions != nullptr) {
        add_exceptions(task, place, sums[i], InputInRow<typename Pairs::Input>{task});
      }
      finish_tile<Avx512Lanes>(task, place, sums[i]);
    }
  }
  return panel_begin + kStretches * stretch;
}

}  // namespace
}  // namespace millrace
