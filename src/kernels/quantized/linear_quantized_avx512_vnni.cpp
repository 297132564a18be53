#include <immintrin.h>

#include "kernels/quantized/dots_avx512.h"
#include "kernels/quantized/linear_quantized_lanes.h"

namespace millrace {
namespace {

struct Dots : Avx512ByteDotsBase {
  static constexpr size_t kFewSums = 3;
  static constexpr bool kUnpacks = false;
  static constexpr size_t kInputsAtOnce = 4;

  [[gnu::always_inline]] static Sums dot(Weights weights, Inputs inputs, Sums sums) {
    return _mm512_dpbusd_epi32(sums, weights, inputs);
  }
  // Of the function above gcc 12 makes a broadcast into a register and a product of it.
  [[gnu::always_inline]] static Sums dot_at(Weights weights, const unsigned char* p, Sums sums) {
    using Four = const unsigned char[4];
    const auto& four = *reinterpret_cast<Four*>(p);
    asm("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(sums) : "v"(weights), "m"(four));
    return sums;
  }
};

// 32 registers: twice 2 x 6 sums, 2 panels of weights, an input, the codes and their mask.
struct TileShape {
  static constexpr size_t tokens_for(size_t num_panels) { return num_panels == 1 ? 8 : 6; }
  // Eight tokens in one tile unpack and load their weights once. The floats that are added up, once
  // for each group, are in memory then (docs/benchmarks/cpu_changes.md, "Eight tokens by two
  // panels").
  static constexpr size_t kTokensOfOneTile = 8;
  static constexpr size_t kFewTerms = 4;
};

}  // namespace

template <class Weights>
void linear_quantized_avx512_vnni(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  linear_quantized_lanes<Dots, TileShape>(Weights{}, task, panel_begin, panel_end);
}

template void linear_quantized_avx512_vnni<Int8Weights>(const QuantizedTask&, size_t, size_t);
template void linear_quantized_avx512_vnni<Int4Weights>(const QuantizedTask&, size_t, size_t);
template void linear_quantized_avx512_vnni<Int6Weights>(const QuantizedTask&, size_t, size_t);
MILLRACE_INSTANTIATE_CODES(linear_quantized_avx512_vnni)

}  // namespace millrace
