#include <immintrin.h>

#include "kernels/lanes_avx512.h"
#include "kernels/linear_kernel.h"
#include "kernels/linear_lanes.h"

namespace millrace {
namespace {

// vdpbf16ps: sums += odd weight * odd input, then += even weight * even input, each rounded once.
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
    int pair;
    __builtin_memcpy(&pair, x, sizeof(pair));
    return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
  }
  [[gnu::always_inline]] static Avx512Lanes add(
      Avx512Lanes sums, __m512bh weights, __m512bh inputs
  ) {
    return {_mm512_dpbf16_ps(sums.v, weights, inputs)};
  }
};

// 32 registers, and a dot product takes six cycles, two starting in each: at least twelve sums. Up
// to twelve tokens take one pass over the weights; longer batches tiles of 4 panels x 6 tokens.
struct TileShape {
  static constexpr size_t kTokensMax = 12;
  static constexpr size_t tile_tokens_for(size_t num_tokens) {
    return num_tokens <= kTokensMax ? kTokensMax : 6;
  }
  static constexpr size_t panels_for(size_t num_tokens) {
    return num_tokens <= 3 ? 8 : num_tokens <= 6 ? 4 : 2;
  }
};

}  // namespace

void linear_avx512_dot(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  linear_lanes<Avx512Lanes, TileShape, PairDots>(task, panel_begin, panel_end);
}

}  // namespace millrace
