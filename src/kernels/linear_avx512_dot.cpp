#include <immintrin.h>

#include "kernels/linear_packed_avx512.h"

namespace millrace {
namespace {

// vdpbf16ps: sum += odd weight * odd input, then += even weight * even input, each rounded once.
struct PairByPair {
  using Weights = __m512bh;
  using Inputs = __m512bh;
  static constexpr bool kSettles = false;

  [[gnu::always_inline]] static Weights weights(__m512i pairs) {
    return reinterpret_cast<__m512bh>(pairs);
  }
  [[gnu::always_inline]] static Inputs inputs(const BFloat16* x) {
    int pair;
    __builtin_memcpy(&pair, x, sizeof(pair));
    return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
  }
  [[gnu::always_inline]] void add(Weights weights, Inputs inputs) {
    sum = _mm512_dpbf16_ps(sum, weights, inputs);
  }
  [[gnu::always_inline]] __m512 total() const { return sum; }

  __m512 sum = _mm512_setzero_ps();
};

// 32 registers: the sums, of each panel its table, its numbers and a pair of weights, one pair of
// inputs. A dot product takes six cycles and one starts in each (on Zen 5 two): at least six sums.
// From five tokens on the dot products take longer than memory does; 2 x 8 and 2 x 12 sums reach
// 0.97 of their peak.
struct PackedShape {
  static constexpr size_t kTokensMax = 12;
  static constexpr size_t tile_tokens_for(size_t) { return kTokensMax; }
  static constexpr size_t panels_for(size_t num_tokens) { return num_tokens <= 6 ? 4 : 2; }
};

}  // namespace

void linear_avx512_dot(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  linear_packed<PairByPair, PackedShape>(task, panel_begin, panel_end);
}

}  // namespace millrace
