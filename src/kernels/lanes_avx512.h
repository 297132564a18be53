// Sixteen lanes in one AVX-512 register. See lanes.h for the contract and the rules.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

#include "kernels/lanes.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

struct Avx512Lanes {
  __m512 v;

  [[gnu::always_inline]] static Avx512Lanes zero() { return {_mm512_setzero_ps()}; }
  [[gnu::always_inline]] static Avx512Lanes broadcast(float x) { return {_mm512_set1_ps(x)}; }

  [[gnu::always_inline]] static __mmask16 first_mask(size_t n) {
    return static_cast<__mmask16>((1U << n) - 1U);
  }

  [[gnu::always_inline]] static Avx512Lanes load(const float* p) { return {_mm512_loadu_ps(p)}; }
  [[gnu::always_inline]] static Avx512Lanes load(const Float16* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  [[gnu::always_inline]] static Avx512Lanes load(const BFloat16* p) {
    return from_bfloat16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  [[gnu::always_inline]] static Avx512Lanes load_first(const float* p, size_t n) {
    return {_mm512_maskz_loadu_ps(first_mask(n), p)};
  }
  [[gnu::always_inline]] static Avx512Lanes load_first(const Float16* p, size_t n) {
    return {_mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_mask(n), p))};
  }
  [[gnu::always_inline]] static Avx512Lanes load_first(const BFloat16* p, size_t n) {
    return from_bfloat16(_mm256_maskz_loadu_epi16(first_mask(n), p));
  }

  [[gnu::always_inline]] static void store(float* p, Avx512Lanes a) { _mm512_storeu_ps(p, a.v); }
  [[gnu::always_inline]] static void store(Float16* p, Avx512Lanes a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_float16_bits(a));
  }
  [[gnu::always_inline]] static void store(BFloat16* p, Avx512Lanes a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bfloat16_bits(a));
  }
  [[gnu::always_inline]] static void store_first(float* p, Avx512Lanes a, size_t n) {
    _mm512_mask_storeu_ps(p, first_mask(n), a.v);
  }
  [[gnu::always_inline]] static void store_first(Float16* p, Avx512Lanes a, size_t n) {
    _mm256_mask_storeu_epi16(p, first_mask(n), to_float16_bits(a));
  }
  [[gnu::always_inline]] static void store_first(BFloat16* p, Avx512Lanes a, size_t n) {
    _mm256_mask_storeu_epi16(p, first_mask(n), to_bfloat16_bits(a));
  }

  [[gnu::always_inline]] static Avx512Lanes add(Avx512Lanes a, Avx512Lanes b) {
    return {_mm512_add_ps(a.v, b.v)};
  }
  [[gnu::always_inline]] static Avx512Lanes sub(Avx512Lanes a, Avx512Lanes b) {
    return {_mm512_sub_ps(a.v, b.v)};
  }
  [[gnu::always_inline]] static Avx512Lanes mul(Avx512Lanes a, Avx512Lanes b) {
    return {_mm512_mul_ps(a.v, b.v)};
  }
  [[gnu::always_inline]] static Avx512Lanes div(Avx512Lanes a, Avx512Lanes b) {
    return {_mm512_div_ps(a.v, b.v)};
  }
  [[gnu::always_inline]] static Avx512Lanes min(Avx512Lanes a, Avx512Lanes b) {
    return {_mm512_min_ps(a.v, b.v)};
  }
  [[gnu::always_inline]] static Avx512Lanes max(Avx512Lanes a, Avx512Lanes b) {
    return {_mm512_max_ps(a.v, b.v)};
  }
  [[gnu::always_inline]] static Avx512Lanes fma(Avx512Lanes a, Avx512Lanes b, Avx512Lanes c) {
    return {_mm512_fmadd_ps(a.v, b.v, c.v)};
  }
  [[gnu::always_inline]] static void add_product(Avx512Lanes a, Avx512Lanes b, Avx512Lanes& sum) {
    asm volatile("vfmadd231ps %2, %1, %0" : "+v"(sum.v) : "v"(a.v), "v"(b.v));
  }
  [[gnu::always_inline]] static Avx512Lanes fms(Avx512Lanes a, Avx512Lanes b, Avx512Lanes c) {
    return {_mm512_fmsub_ps(a.v, b.v, c.v)};
  }

  // Of 32 bfloat16.
  [[gnu::always_inline]] static Avx512Lanes widen_even(__m512i all) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(all, 16))};
  }
  [[gnu::always_inline]] static Avx512Lanes widen_odd(__m512i all) {
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
    return {_mm512_castsi512_ps(_mm512_and_si512(all, upper))};
  }
  [[gnu::always_inline]] static Avx512Lanes widen_even(const BFloat16* p) {
    return widen_even(_mm512_loadu_si512(p));
  }
  [[gnu::always_inline]] static Avx512Lanes widen_odd(const BFloat16* p) {
    return widen_odd(_mm512_loadu_si512(p));
  }

  [[gnu::always_inline]] static Avx512Lanes scale_by_power_of_two(Avx512Lanes a, Avx512Lanes t) {
    return {_mm512_scalef_ps(a.v, _mm512_sub_ps(t.v, _mm512_set1_ps(kRoundingShift)))};
  }

  [[gnu::always_inline]] static Avx512Lanes round_to_bfloat16(Avx512Lanes a) {
    const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
    return {_mm512_castsi512_ps(_mm512_and_si512(rounded_bits(a), upper))};
  }
  [[gnu::always_inline]] static Avx512Lanes even_of(Avx512Lanes a, Avx512Lanes b) {
    return {_mm512_permutex2var_ps(a.v, even_lanes(), b.v)};
  }
  [[gnu::always_inline]] static Avx512Lanes odd_of(Avx512Lanes a, Avx512Lanes b) {
    const __m512i odd_lanes = _mm512_add_epi32(even_lanes(), _mm512_set1_epi32(1));
    return {_mm512_permutex2var_ps(a.v, odd_lanes, b.v)};
  }

  [[gnu::always_inline]] static void transpose(const float* rows, size_t stride, float* out) {
    __m512 quads[16];  // [i]: rows 4 * (i / 4) .. + 3, columns i % 4 + 4 * quarter
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) {
      const float* p = rows + 4 * i * stride;
      const __m512 a = _mm512_loadu_ps(p);
      const __m512 b = _mm512_loadu_ps(p + stride);
      const __m512 c = _mm512_loadu_ps(p + 2 * stride);
      const __m512 d = _mm512_loadu_ps(p + 3 * stride);
      const __m512d ab_low = _mm512_castps_pd(_mm512_unpacklo_ps(a, b));
      const __m512d ab_high = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
      const __m512d cd_low = _mm512_castps_pd(_mm512_unpacklo_ps(c, d));
      const __m512d cd_high = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
      quads[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_low, cd_low));
      quads[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_low, cd_low));
      quads[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_high, cd_high));
      quads[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_high, cd_high));
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) {
      const __m512 top_even = _mm512_shuffle_f32x4(quads[i], quads[4 + i], 0x88);
      const __m512 top_odd = _mm512_shuffle_f32x4(quads[i], quads[4 + i], 0xDD);
      const __m512 low_even = _mm512_shuffle_f32x4(quads[8 + i], quads[12 + i], 0x88);
      const __m512 low_odd = _mm512_shuffle_f32x4(quads[8 + i], quads[12 + i], 0xDD);
      _mm512_storeu_ps(out + i * 16, _mm512_shuffle_f32x4(top_even, low_even, 0x88));
      _mm512_storeu_ps(out + (i + 4) * 16, _mm512_shuffle_f32x4(top_odd, low_odd, 0x88));
      _mm512_storeu_ps(out + (i + 8) * 16, _mm512_shuffle_f32x4(top_even, low_even, 0xDD));
      _mm512_storeu_ps(out + (i + 12) * 16, _mm512_shuffle_f32x4(top_odd, low_odd, 0xDD));
    }
  }

  [[gnu::always_inline]] static float sum(Avx512Lanes a) {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  [[gnu::always_inline]] static float max_of(Avx512Lanes a) {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

 private:
  [[gnu::always_inline]] static Avx512Lanes from_bfloat16(__m256i bits) {
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  [[gnu::always_inline]] static __m256i to_float16_bits(Avx512Lanes a) {
    return _mm512_cvtps_ph(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  // The upper halves are those of bfloat16.
  [[gnu::always_inline]] static __m512i rounded_bits(Avx512Lanes a) {
    const __m512i bits = _mm512_castps_si512(a.v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    return _mm512_mask_blend_epi32(nan, rounded, quiet);
  }
  [[gnu::always_inline]] static __m256i to_bfloat16_bits(Avx512Lanes a) {
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded_bits(a), 16));
  }
  [[gnu::always_inline]] static __m512i even_lanes() {
    return _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  }
};

}  // namespace
}  // namespace millrace
