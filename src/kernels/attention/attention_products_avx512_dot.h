// The products of attention by vdpbf16ps: see attention_products_lanes.h. See lanes.h for the rules
// of this file.
#pragma once

#include <immintrin.h>

#include "kernels/attention/attention_products_lanes.h"
#include "kernels/lanes_avx512.h"

namespace millrace {
namespace {

// vdpbf16ps: sums += odd * odd, then += even * even, each rounded once, denormals taken as zero.
struct PairDots {
  using Element = BFloat16;
  using Operand = BFloat16;
  static constexpr size_t kDepth = kKvDepth<BFloat16>;
  static constexpr size_t kParts = 1;
  static constexpr bool kCanRead = true;

  template <size_t kPart>
  [[gnu::always_inline]] static __m512bh vector(const BFloat16* p) {
    return reinterpret_cast<__m512bh>(_mm512_loadu_si512(p));
  }
  template <size_t kPart>
  [[gnu::always_inline]] static __m512bh vector_first(const BFloat16* p, size_t n) {
    return reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi32(Avx512Lanes::first_mask(n), p));
  }
  template <size_t kPart>
  [[gnu::always_inline]] static __m512bh operand(const BFloat16* x) {
    int pair;
    __builtin_memcpy(&pair, x, sizeof(pair));
    return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
  }
  template <size_t kPart>
  [[gnu::always_inline]] static __m512bh without_odd(__m512bh v) {
    const __m512i lower = _mm512_set1_epi32(0xFFFF);
    return reinterpret_cast<__m512bh>(_mm512_and_si512(reinterpret_cast<__m512i>(v), lower));
  }
  [[gnu::always_inline]] static Avx512Lanes add(
      Avx512Lanes sums, __m512bh vector, __m512bh operand
  ) {
    return {_mm512_dpbf16_ps(sums.v, vector, operand)};
  }
  // g++ 12 gives each broadcast a register.
  template <size_t kPart>
  [[gnu::always_inline]] static Avx512Lanes add_read(
      Avx512Lanes sums, __m512bh vector, const BFloat16* x
  ) {
    using Pair [[gnu::may_alias]] = int;
    asm("vdpbf16ps %2%{1to16%}, %1, %0"
        : "+v"(sums.v)
        : "v"(vector), "m"(*reinterpret_cast<const Pair*>(x)));
    return sums;
  }
  [[gnu::always_inline]] static Avx512Lanes exp(Avx512Lanes x) { return coarse_exp_of_moderate(x); }
  [[gnu::always_inline]] static void store(BFloat16* p, Avx512Lanes a) { Avx512Lanes::store(p, a); }
  [[gnu::always_inline]] static Avx512Lanes store_weights(
      BFloat16* p, Avx512Lanes a, Avx512Lanes b, Avx512Lanes sums
  ) {
    const __m512bh packed = _mm512_cvtne2ps_pbh(b.v, a.v);
    _mm512_storeu_si512(p, reinterpret_cast<__m512i>(packed));
    const __m512i ones = _mm512_set1_epi16(0x3F80);
    return add(sums, packed, reinterpret_cast<__m512bh>(ones));
  }
};

}  // namespace
}  // namespace millrace
