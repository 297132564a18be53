// Sixteen lanes in two AVX2 registers. See lanes.h for the contract and the rules.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/lanes.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

struct Avx2Lanes {
  __m256 lo;  // lanes 0..7
  __m256 hi;  // lanes 8..15

  [[gnu::always_inline]] static Avx2Lanes zero() {
    return {_mm256_setzero_ps(), _mm256_setzero_ps()};
  }
  [[gnu::always_inline]] static Avx2Lanes broadcast(float x) {
    return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
  }

  [[gnu::always_inline]] static Avx2Lanes load(const float* p) {
    return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
  }
  [[gnu::always_inline]] static Avx2Lanes load(const Float16* p) {
    return {_mm256_cvtph_ps(load_eight(p)), _mm256_cvtph_ps(load_eight(p + 8))};
  }
  [[gnu::always_inline]] static Avx2Lanes load(const BFloat16* p) {
    return {from_bfloat16(load_eight(p)), from_bfloat16(load_eight(p + 8))};
  }
  // Through a copy: there are no masked loads of 16-bit elements, and this is never an inner loop
  // of a real model, whose sizes are multiples of sixteen.
  template <class T>
  [[gnu::always_inline]] static Avx2Lanes load_first(const T* p, size_t n) {
    T copy[kLanes] = {};
    for (size_t i = 0; i < n; ++i) copy[i] = p[i];
    return load(copy);
  }

  [[gnu::always_inline]] static void store(float* p, Avx2Lanes a) {
    _mm256_storeu_ps(p, a.lo);
    _mm256_storeu_ps(p + 8, a.hi);
  }
  [[gnu::always_inline]] static void store(Float16* p, Avx2Lanes a) {
    constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
    store_eight(p, _mm256_cvtps_ph(a.lo, kNearest));
    store_eight(p + 8, _mm256_cvtps_ph(a.hi, kNearest));
  }
  [[gnu::always_inline]] static void store(BFloat16* p, Avx2Lanes a) {
    // Packing works within 128-bit halves; the permutation puts the quarters back in order.
    const __m256i packed = _mm256_packus_epi32(to_bfloat16_bits(a.lo), to_bfloat16_bits(a.hi));
    const __m256i ordered = _mm256_permute4x64_epi64(packed, _MM_SHUFFLE(3, 1, 2, 0));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), ordered);
  }
  template <class T>
  [[gnu::always_inline]] static void store_first(T* p, Avx2Lanes a, size_t n) {
    T copy[kLanes];
    store(copy, a);
    for (size_t i = 0; i < n; ++i) p[i] = copy[i];
  }

  [[gnu::always_inline]] static Avx2Lanes add(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
  }
  [[gnu::always_inline]] static Avx2Lanes sub(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
  }
  [[gnu::always_inline]] static Avx2Lanes mul(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
  }
  [[gnu::always_inline]] static Avx2Lanes div(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
  }
  [[gnu::always_inline]] static Avx2Lanes min(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
  }
  [[gnu::always_inline]] static Avx2Lanes max(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
  }
  [[gnu::always_inline]] static Avx2Lanes fma(Avx2Lanes a, Avx2Lanes b, Avx2Lanes c) {
    return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
  }
  [[gnu::always_inline]] static void add_product(__m256 a, __m256 b, __m256& sum) {
    asm volatile("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(a), "x"(b));
  }
  // Where the compiler chooses the register of a sum it writes it over a factor's, and where it
  // chooses the order it loads early; both leave none in tiles that need all sixteen.
  [[gnu::always_inline]] static void add_product(Avx2Lanes a, Avx2Lanes b, Avx2Lanes& sum) {
    add_product(a.lo, b.lo, sum.lo);
    add_product(a.hi, b.hi, sum.hi);
  }
  [[gnu::always_inline]] static Avx2Lanes fms(Avx2Lanes a, Avx2Lanes b, Avx2Lanes c) {
    return {_mm256_fmsub_ps(a.lo, b.lo, c.lo), _mm256_fmsub_ps(a.hi, b.hi, c.hi)};
  }

  // Of 32 bfloat16, sixteen in a register.
  [[gnu::always_inline]] static Avx2Lanes widen_even(__m256i lo, __m256i hi) {
    return {
        _mm256_castsi256_ps(_mm256_slli_epi32(lo, 16)),
        _mm256_castsi256_ps(_mm256_slli_epi32(hi, 16))};
  }
  [[gnu::always_inline]] static Avx2Lanes widen_odd(__m256i lo, __m256i hi) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
    return {
        _mm256_castsi256_ps(_mm256_and_si256(lo, upper)),
        _mm256_castsi256_ps(_mm256_and_si256(hi, upper))};
  }
  [[gnu::always_inline]] static Avx2Lanes widen_even(const BFloat16* p) {
    return widen_even(load_sixteen(p), load_sixteen(p + 16));
  }
  [[gnu::always_inline]] static Avx2Lanes widen_odd(const BFloat16* p) {
    return widen_odd(load_sixteen(p), load_sixteen(p + 16));
  }

  [[gnu::always_inline]] static Avx2Lanes scale_by_power_of_two(Avx2Lanes a, Avx2Lanes t) {
    return {scale_eight(a.lo, t.lo), scale_eight(a.hi, t.hi)};
  }

  [[gnu::always_inline]] static Avx2Lanes round_to_bfloat16(Avx2Lanes a) {
    return {round_eight(a.lo), round_eight(a.hi)};
  }
  [[gnu::always_inline]] static Avx2Lanes even_of(Avx2Lanes a, Avx2Lanes b) {
    return {even_of_eight(a.lo, a.hi), even_of_eight(b.lo, b.hi)};
  }
  [[gnu::always_inline]] static Avx2Lanes odd_of(Avx2Lanes a, Avx2Lanes b) {
    return {odd_of_eight(a.lo, a.hi), odd_of_eight(b.lo, b.hi)};
  }

  [[gnu::always_inline]] static void transpose(const float* rows, size_t stride, float* out) {
    for (size_t row = 0; row < 16; row += 8) {
      for (size_t column = 0; column < 16; column += 8) {
        transpose_eight(rows + row * stride + column, stride, out + column * 16 + row);
      }
    }
  }

  [[gnu::always_inline]] static float sum(Avx2Lanes a) {
    const __m256 eight = _mm256_add_ps(a.lo, a.hi);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  [[gnu::always_inline]] static float max_of(Avx2Lanes a) {
    const __m256 eight = _mm256_max_ps(a.lo, a.hi);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

 private:
  // 8 x 8; rows of `out` are 16 apart.
  [[gnu::always_inline]] static void transpose_eight(const float* p, size_t stride, float* out) {
    __m256 quads[8];  // [i]: rows 4 * (i / 4) .. + 3, columns i % 4 and i % 4 + 4
#pragma GCC unroll 2
    for (size_t i = 0; i < 2; ++i) {
      const float* four = p + 4 * i * stride;
      const __m256 a = _mm256_loadu_ps(four);
      const __m256 b = _mm256_loadu_ps(four + stride);
      const __m256 c = _mm256_loadu_ps(four + 2 * stride);
      const __m256 d = _mm256_loadu_ps(four + 3 * stride);
      const __m256d ab_low = _mm256_castps_pd(_mm256_unpacklo_ps(a, b));
      const __m256d ab_high = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
      const __m256d cd_low = _mm256_castps_pd(_mm256_unpacklo_ps(c, d));
      const __m256d cd_high = _mm256_castps_pd(_mm256_unpackhi_ps(c, d));
      quads[4 * i] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab_low, cd_low));
      quads[4 * i + 1] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab_low, cd_low));
      quads[4 * i + 2] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab_high, cd_high));
      quads[4 * i + 3] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab_high, cd_high));
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) {
      _mm256_storeu_ps(out + i * 16, _mm256_permute2f128_ps(quads[i], quads[4 + i], 0x20));
      _mm256_storeu_ps(out + (i + 4) * 16, _mm256_permute2f128_ps(quads[i], quads[4 + i], 0x31));
    }
  }
  [[gnu::always_inline]] static __m128i load_eight(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
  }
  [[gnu::always_inline]] static __m256i load_sixteen(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  [[gnu::always_inline]] static void store_eight(void* p, __m128i bits) {
    _mm_storeu_si128(static_cast<__m128i*>(p), bits);
  }
  [[gnu::always_inline]] static __m256 from_bfloat16(__m128i bits) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  // The upper halves are those of bfloat16.
  [[gnu::always_inline]] static __m256i rounded_bits(__m256 a) {
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    return _mm256_blendv_epi8(rounded, quiet, nan);
  }
  [[gnu::always_inline]] static __m256i to_bfloat16_bits(__m256 a) {
    return _mm256_srli_epi32(rounded_bits(a), 16);
  }
  [[gnu::always_inline]] static __m256 round_eight(__m256 a) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int>(0xFFFF0000U));
    return _mm256_castsi256_ps(_mm256_and_si256(rounded_bits(a), upper));
  }
  // Shuffling works within 128-bit halves; the permutation puts the quarters back in order.
  [[gnu::always_inline]] static __m256 in_order(__m256 quarters) {
    return _mm256_castpd_ps(
        _mm256_permute4x64_pd(_mm256_castps_pd(quarters), _MM_SHUFFLE(3, 1, 2, 0))
    );
  }
  [[gnu::always_inline]] static __m256 even_of_eight(__m256 a, __m256 b) {
    return in_order(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)));
  }
  [[gnu::always_inline]] static __m256 odd_of_eight(__m256 a, __m256 b) {
    return in_order(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
  }
  // In two factors, because 2^n itself need not be a normal float where the product is one.
  [[gnu::always_inline]] static __m256 scale_eight(__m256 a, __m256 t) {
    const __m256i shift = _mm256_castps_si256(_mm256_set1_ps(kRoundingShift));
    const __m256i n = _mm256_sub_epi32(_mm256_castps_si256(t), shift);
    const __m256i half = _mm256_srai_epi32(n, 1);
    const __m256 part = _mm256_mul_ps(a, power_of_two(half));
    return _mm256_mul_ps(part, power_of_two(_mm256_sub_epi32(n, half)));
  }
  [[gnu::always_inline]] static __m256 power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }
};

}  // namespace
}  // namespace millrace
