#include <immintrin.h>

#include "kernels/lanes_avx2.h"
#include "kernels/quantized/round_panel_kernel.h"
#include "kernels/quantized/round_panel_lanes.h"

namespace millrace {
namespace {

// The codebook as a search by halves reads it: of the middles left, the one in the middle.
struct CodebookTree {
  float quarters[8];    // [0 or 1], from the half that the first comparison left
  float eighths[8];     // [0 .. 3]
  float sixteenths[8];  // [0 .. 7]
  float even[8];        // entries
  float odd[8];
};
constexpr CodebookTree kTree = [] {
  CodebookTree tree = {};
  for (int i = 0; i < 2; ++i) tree.quarters[i] = kInt4Codebook.middles[8 * i + 3];
  for (int i = 0; i < 4; ++i) tree.eighths[i] = kInt4Codebook.middles[4 * i + 1];
  for (int i = 0; i < 8; ++i) {
    tree.sixteenths[i] = kInt4Codebook.middles[2 * i];
    tree.even[i] = kInt4Codebook.entries[2 * i];
    tree.odd[i] = kInt4Codebook.entries[2 * i + 1];
  }
  return tree;
}();

struct Eights {
  __m256i lo;
  __m256i hi;
};

struct Ops {
  using Mask = Avx2Lanes;
  using Ints = Eights;
  static constexpr int kScalesTogether = 1;

  struct Codebook {
    __m256 quarters = _mm256_loadu_ps(kTree.quarters);
    __m256 eighths = _mm256_loadu_ps(kTree.eighths);
    __m256 sixteenths = _mm256_loadu_ps(kTree.sixteenths);
    __m256 even = _mm256_loadu_ps(kTree.even);
    __m256 odd = _mm256_loadu_ps(kTree.odd);

    struct Place {
      __m256i eighth;  // 0 .. 7
      __m256 is_odd;   // all bits
    };
    [[gnu::always_inline]] Place find(__m256 x) const {
      const __m256 half = above(x, _mm256_set1_ps(kInt4Codebook.middles[7]));
      __m256i place = _mm256_sub_epi32(_mm256_setzero_si256(), _mm256_castps_si256(half));
      place = next(place, above(x, _mm256_permutevar8x32_ps(quarters, place)));
      place = next(place, above(x, _mm256_permutevar8x32_ps(eighths, place)));
      return {place, above(x, _mm256_permutevar8x32_ps(sixteenths, place))};
    }
    [[gnu::always_inline]] Avx2Lanes entries(Avx2Lanes x) const {
      return {entries_of(x.lo), entries_of(x.hi)};
    }
    [[gnu::always_inline]] Ints codes(Avx2Lanes x) const {
      return {codes_of(x.lo), codes_of(x.hi)};
    }

   private:
    [[gnu::always_inline]] static __m256 above(__m256 a, __m256 b) {
      return _mm256_cmp_ps(a, b, _CMP_GT_OQ);
    }
    // 2 * place, and one more where all bits are set.
    [[gnu::always_inline]] static __m256i next(__m256i place, __m256 is_above) {
      return _mm256_sub_epi32(_mm256_add_epi32(place, place), _mm256_castps_si256(is_above));
    }
    [[gnu::always_inline]] __m256 entries_of(__m256 x) const {
      const Place place = find(x);
      return _mm256_blendv_ps(
          _mm256_permutevar8x32_ps(even, place.eighth),
          _mm256_permutevar8x32_ps(odd, place.eighth),
          place.is_odd
      );
    }
    [[gnu::always_inline]] __m256i codes_of(__m256 x) const {
      const Place place = find(x);
      return next(place.eighth, place.is_odd);
    }
  };

  [[gnu::always_inline]] static Avx2Lanes absolute(Avx2Lanes a) {
    const __m256 mask = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF));
    return {_mm256_and_ps(a.lo, mask), _mm256_and_ps(a.hi, mask)};
  }
  [[gnu::always_inline]] static Avx2Lanes floor(Avx2Lanes a) {
    return {_mm256_floor_ps(a.lo), _mm256_floor_ps(a.hi)};
  }
  [[gnu::always_inline]] static Avx2Lanes ceil(Avx2Lanes a) {
    return {_mm256_ceil_ps(a.lo), _mm256_ceil_ps(a.hi)};
  }
  [[gnu::always_inline]] static Avx2Lanes zero_unless_number(Avx2Lanes a) {
    return {
        _mm256_and_ps(a.lo, _mm256_cmp_ps(a.lo, a.lo, _CMP_ORD_Q)),
        _mm256_and_ps(a.hi, _mm256_cmp_ps(a.hi, a.hi, _CMP_ORD_Q))};
  }
  [[gnu::always_inline]] static Mask greater(Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_cmp_ps(a.lo, b.lo, _CMP_GT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GT_OQ)};
  }
  [[gnu::always_inline]] static Mask both(Mask p, Mask q) {
    return {_mm256_and_ps(p.lo, q.lo), _mm256_and_ps(p.hi, q.hi)};
  }
  [[gnu::always_inline]] static Avx2Lanes select(Mask p, Avx2Lanes a, Avx2Lanes b) {
    return {_mm256_blendv_ps(b.lo, a.lo, p.lo), _mm256_blendv_ps(b.hi, a.hi, p.hi)};
  }
  [[gnu::always_inline]] static Ints truncate(Avx2Lanes a) {
    return {_mm256_cvttps_epi32(a.lo), _mm256_cvttps_epi32(a.hi)};
  }
  template <int kShift>
  [[gnu::always_inline]] static Ints or_shifted(Ints a, Ints b) {
    return {
        _mm256_or_si256(a.lo, _mm256_slli_epi32(b.lo, kShift)),
        _mm256_or_si256(a.hi, _mm256_slli_epi32(b.hi, kShift))};
  }
  [[gnu::always_inline]] static Ints lower_four(Ints a) {
    const __m256i mask = _mm256_set1_epi32(15);
    return {_mm256_and_si256(a.lo, mask), _mm256_and_si256(a.hi, mask)};
  }
  [[gnu::always_inline]] static Ints above_four(Ints a) {
    return {_mm256_srli_epi32(a.lo, 4), _mm256_srli_epi32(a.hi, 4)};
  }
  [[gnu::always_inline]] static void store_codes(unsigned char* p, Ints a, Ints b, Ints c, Ints d) {
    store_eight(p, a.lo, b.lo, c.lo, d.lo);
    store_eight(p + 32, a.hi, b.hi, c.hi, d.hi);
  }
  [[gnu::always_inline]] static void store_bytes(unsigned char* p, Avx2Lanes a) {
    const Ints ints = truncate(a);
    // Packing works within 128-bit halves; the permutation puts the quarters back in order.
    const __m256i words =
        _mm256_permute4x64_epi64(_mm256_packus_epi32(ints.lo, ints.hi), _MM_SHUFFLE(3, 1, 2, 0));
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
  }

 private:
  [[gnu::always_inline]] static void store_eight(
      unsigned char* p, __m256i a, __m256i b, __m256i c, __m256i d
  ) {
    const __m256i low = _mm256_or_si256(a, _mm256_slli_epi32(b, 8));
    const __m256i high = _mm256_or_si256(c, _mm256_slli_epi32(d, 8));
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(p), _mm256_or_si256(low, _mm256_slli_epi32(high, 16))
    );
  }
};

}  // namespace

template <class Weights>
void round_panel_avx2(const RoundPanelTask& task) {
  round_panel_lanes<Avx2Lanes, Ops, Weights>(task);
}

template void round_panel_avx2<Int8Weights>(const RoundPanelTask&);
template void round_panel_avx2<Int4Weights>(const RoundPanelTask&);
template void round_panel_avx2<Int6Weights>(const RoundPanelTask&);

}  // namespace millrace
