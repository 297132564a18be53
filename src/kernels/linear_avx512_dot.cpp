#include "kernels/linear_kernel.h"
#include "kernels/packed_tile_avx512.h"

namespace millrace {
namespace {

// By vdpbf16ps.
struct DotPairs {
  using Input = BFloat16;
  using Weights = __m512bh;

  [[gnu::always_inline]] static Weights weights_of(__m512i pair) {
    return reinterpret_cast<__m512bh>(pair);
  }
  [[gnu::always_inline]] static __m512bh broadcast(const unsigned char* x) {
    int pair;
    __builtin_memcpy(&pair, x, sizeof(pair));
    return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
  }
  [[gnu::always_inline]] static void add(Weights weights, __m512bh inputs, Avx512Lanes& sums) {
    sums.v = _mm512_dpbf16_ps(sums.v, weights, inputs);
  }
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
  if (task.hint_bytes > 0 && task.num_tokens > PackedShape::kTokensMax) {
    linear_lanes<Avx512Lanes, PackedShape, PackedPairs<DotPairs, Hints::kFirstCache>>(
        task, panel_begin, panel_end
    );
    return;
  }
  if (task.num_tokens <= kStretchTokensMax) {
    panel_begin = run_stretches<DotPairs>(task, panel_begin, panel_end);
  }
  linear_lanes<Avx512Lanes, PackedShape, PackedPairs<DotPairs, Hints::kSecondCache>>(
      task, panel_begin, panel_end
  );
}

}  // namespace millrace
