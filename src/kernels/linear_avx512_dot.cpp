#include <immintrin.h>

#include "kernels/lanes_avx512.h"
#include "kernels/linear_bfloat16_lanes.h"
#include "kernels/linear_kernel.h"
#include "kernels/linear_lanes.h"
#include "kernels/packed_bfloat16_avx512.h"

namespace millrace {
namespace {

[[gnu::always_inline]] inline __m512bh broadcast_pair(const BFloat16* x) {
  int pair;
  __builtin_memcpy(&pair, x, sizeof(pair));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

// vdpbf16ps: sums += odd weight * odd input, then += even weight * even input, each rounded once.
// Of a panel that is unpacked.
struct PairDots {
  using Weight = BFloat16;
  using Input = BFloat16;
  static constexpr size_t kInputs = 2;
  static constexpr size_t kParts = 1;

  template <size_t kPart>
  [[gnu::always_inline]] static __m512bh weights(const BFloat16* p) {
    return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
  }
  template <size_t kPart>
  [[gnu::always_inline]] static __m512bh inputs(const BFloat16* x) {
    return broadcast_pair(x);
  }
  [[gnu::always_inline]] static Avx512Lanes add(
      Avx512Lanes sums, __m512bh weights, __m512bh inputs
  ) {
    return {_mm512_dpbf16_ps(sums.v, weights, inputs)};
  }
  template <size_t kPanels, size_t kTokens>
  static void sum_tile(const LinearTask& task, size_t panel, size_t token, float* out) {
    sum_steps<Avx512Lanes, PairDots, kPanels, kTokens>(task, panel, token, out);
  }
};

// The same sums of a packed panel, whose weights are unpacked in registers.
struct PackedPairDots {
  using Input = BFloat16;

  template <size_t kPanels, size_t kTokens>
  static void sum_tile(const LinearTask& task, size_t panel_begin, size_t token_begin, float* out) {
    const uint8_t* panels =
        static_cast<const uint8_t*>(task.weights) + panel_begin * task.panel_size;
    const BFloat16* x = static_cast<const BFloat16*>(task.x) + token_begin * task.x_stride;
    __m512 sums[kPanels][kTokens];
#pragma GCC unroll 8
    for (size_t panel = 0; panel < kPanels; ++panel) {
#pragma GCC unroll 12
      for (size_t token = 0; token < kTokens; ++token) sums[panel][token] = _mm512_setzero_ps();
    }
    const size_t num_blocks = (task.num_inputs + kPackedBlockColumns - 1) / kPackedBlockColumns;
    for (size_t block = 0; block < num_blocks; ++block) {
#pragma GCC unroll 8
      for (size_t panel = 0; panel < kPanels; ++panel) {
        const uint8_t* p = panels + panel * task.panel_size;
        add_block<kTokens>(
            task, p, p + kPackedTableBytes + block * kPackedBlockBytes, x, sums[panel]
        );
      }
      x += kPackedBlockColumns;
    }
#pragma GCC unroll 8
    for (size_t panel = 0; panel < kPanels; ++panel) {
#pragma GCC unroll 12
      for (size_t token = 0; token < kTokens; ++token) {
        _mm512_storeu_ps(out + (panel * kTokens + token) * kLanes, sums[panel][token]);
      }
    }
  }

 private:
  template <size_t kTokens>
  [[gnu::always_inline]] static void add_block(
      const LinearTask& task,
      const uint8_t* panel,
      const uint8_t* block,
      const BFloat16* x,
      __m512 (&sums)[kTokens]
  ) {
    const __m512i table = _mm512_loadu_si512(panel);
    const __m512i codes = _mm512_loadu_si512(block);
    const uint8_t* rests = block + kPackedCodeBytes;
    add_pair(task, unpack_pair<0>(table, codes, rests), x, sums);
    add_pair(task, unpack_pair<1>(table, codes, rests), x + 2, sums);
    add_pair(task, unpack_pair<2>(table, codes, rests), x + 4, sums);
    add_pair(task, unpack_pair<3>(table, codes, rests), x + 6, sums);
  }

  template <size_t kTokens>
  [[gnu::always_inline]] static void add_pair(
      const LinearTask& task, __m512i weights, const BFloat16* x, __m512 (&sums)[kTokens]
  ) {
#pragma GCC unroll 12
    for (size_t token = 0; token < kTokens; ++token) {
      sums[token] = _mm512_dpbf16_ps(
          sums[token],
          reinterpret_cast<__m512bh>(weights),
          broadcast_pair(x + token * task.x_stride)
      );
    }
  }
};

// 32 registers, and a dot product takes six cycles, two starting in each: at least twelve sums. Up
// to twelve tokens take one pass over the packed weights, which costs less than the memory does.
struct PackedShape {
  static constexpr size_t kTokensMax = 12;
  static constexpr size_t tile_tokens_for(size_t) { return kTokensMax; }
  static constexpr size_t panels_for(size_t num_tokens) {
    return num_tokens <= 2 ? 8 : num_tokens <= 6 ? 4 : 2;
  }
};

// Longer batches unpack some panels and take tiles of 4 panels x 6 tokens.
struct UnpackedShape {
  static constexpr size_t kTokensMax = 6;
  static constexpr size_t tile_tokens_for(size_t) { return kTokensMax; }
  static constexpr size_t panels_for(size_t) { return kUnpackedPanels; }
};

}  // namespace

void linear_avx512_dot(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  if (task.num_tokens <= PackedShape::kTokensMax) {
    linear_lanes<Avx512Lanes, PackedShape, PackedPairDots>(task, panel_begin, panel_end);
  } else {
    linear_unpacked<Avx512Lanes, UnpackedShape, PairDots>(
        task, panel_begin, panel_end, unpack_panel
    );
  }
}

}  // namespace millrace
