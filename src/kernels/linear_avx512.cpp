#include "kernels/lanes_avx512.h"
#include "kernels/linear_bfloat16_lanes.h"
#include "kernels/linear_kernel.h"
#include "kernels/linear_lanes.h"
#include "kernels/packed_bfloat16_avx512.h"
#include "kernels/packed_tile_avx512.h"

namespace millrace {
namespace {

// 32 registers: 4 x 6 sums, 4 panels of weights, and inputs broadcast from memory. A single token
// takes 8 panels, because two multiply-adds start each cycle and each takes four.
struct TileShape {
  static constexpr size_t kTokensMax = 6;
  static constexpr size_t tile_tokens_for(size_t) { return kTokensMax; }
  static constexpr size_t panels_for(size_t num_tokens) { return num_tokens == 1 ? 8 : 4; }
};

// The same. A single token has no more panels: so many are unpacked at once. Every tile loads and
// stores its sums once for each 112 inputs, an eighth of 896.
struct UnpackedShape {
  static constexpr size_t kPanels = 4;
  static constexpr size_t kUnpackedBytes = kUnpackedBytesMax;
  static constexpr size_t kTokensMax = 6;
  static constexpr size_t panels_for(size_t) { return kPanels; }
};

// Two multiply-adds, as vdpbf16ps does them.
struct FloatPairs {
  using Input = float;
  struct Weights {
    Avx512Lanes odd;
    Avx512Lanes even;
  };
  using Inputs = Weights;

  [[gnu::always_inline]] static Weights weights_of(__m512i pair) {
    return {Avx512Lanes::widen_odd(pair), Avx512Lanes::widen_even(pair)};
  }
  [[gnu::always_inline]] static Inputs broadcast(const unsigned char* x) {
    const auto* const pair = reinterpret_cast<const float*>(x);
    return {Avx512Lanes::broadcast(pair[1]), Avx512Lanes::broadcast(pair[0])};
  }
  [[gnu::always_inline]] static void add(Weights weights, Inputs inputs, Avx512Lanes& sums) {
    Avx512Lanes::add_product(weights.odd, inputs.odd, sums);
    Avx512Lanes::add_product(weights.even, inputs.even, sums);
  }
};

// Up to so many tokens multiply weights in the registers in which they were unpacked: 2 x 8 sums,
// of each panel its table, its numbers and a pair of weights, and a pair of inputs fit 32 of them.
struct FewShape {
  static constexpr size_t kTokensMax = 8;
  static constexpr size_t tile_tokens_for(size_t) { return kTokensMax; }
  static constexpr size_t panels_for(size_t num_tokens) { return num_tokens <= 2 ? 4 : 2; }
};

void linear_few(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  if (task.num_tokens <= kStretchTokensMax) {
    panel_begin = run_stretches<FloatPairs>(task, panel_begin, panel_end);
  }
  linear_lanes<Avx512Lanes, FewShape, PackedPairs<FloatPairs, Hints::kSecondCache>>(
      task, panel_begin, panel_end
  );
}

}  // namespace

template <class Weight>
void linear_avx512(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  linear_lanes<Avx512Lanes, TileShape, EachInput<Avx512Lanes, Weight>>(
      task, panel_begin, panel_end
  );
}
template <>
void linear_avx512<BFloat16>(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  if (task.num_tokens <= FewShape::kTokensMax) {
    linear_few(task, panel_begin, panel_end);
  } else {
    linear_unpacked<Avx512Lanes, UnpackedShape, UnpackedRows>(task, panel_begin, panel_end);
  }
}

template void linear_avx512<float>(const LinearTask&, size_t, size_t);
template void linear_avx512<Float16>(const LinearTask&, size_t, size_t);

}  // namespace millrace
