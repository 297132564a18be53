#include <immintrin.h>

#include "kernels/lanes_avx512.h"
#include "kernels/quantized/round_panel_kernel.h"
#include "kernels/quantized/round_panel_lanes.h"

namespace millrace {
namespace {

// The codebook in 32 cells of 32 / 11, so narrow that no two middles share one: a cell's entry is
// the one below or above the middle within it. Cell k, from 32 / 11 * (k - 0.5) to 32 / 11 * (k +
// 0.5), is at index k modulo 32.
struct CodebookCells {
  float middles[32];  // infinite where there is none
  float below[32];    // entries
  float above[32];
  int codes[32];  // of those below
  bool is_sound = true;
};
constexpr float kCellsPerUnit = 0.34375F;
static_assert(kInt4Beyond * kCellsPerUnit < 15.5F, "in a cell of 32");

constexpr CodebookCells kCells = [] {
  CodebookCells cells = {};
  for (int k = -16; k < 16; ++k) {
    const int at = k & 31;
    int code = 0;
    int num_within = 0;
    cells.middles[at] = __builtin_inff();
    for (const float middle : kInt4Codebook.middles) {
      const float place = middle * kCellsPerUnit - static_cast<float>(k) + 0.5F;
      if (place <= 0.01F) ++code;
      if (place > 0.01F && place < 0.99F) {
        cells.middles[at] = middle;
        ++num_within;
      }
      const bool is_near_an_end = (place > -0.01F && place <= 0.01F) || num_within > 1;
      if (is_near_an_end) cells.is_sound = false;
    }
    cells.codes[at] = code;
    cells.below[at] = kInt4Codebook.entries[code];
    cells.above[at] = kInt4Codebook.entries[code < 15 ? code + 1 : 15];
  }
  return cells;
}();
static_assert(kCells.is_sound);

struct Ops {
  using Mask = __mmask16;
  using Ints = __m512i;
  static constexpr int kScalesTogether = 4;

  struct FloatTable {
    __m512 first;
    __m512 second;
    explicit FloatTable(const float* p)
        : first(_mm512_loadu_ps(p)), second(_mm512_loadu_ps(p + 16)) {}
    [[gnu::always_inline]] __m512 at(__m512i cells) const {
      return _mm512_permutex2var_ps(first, cells, second);
    }
  };

  struct Codebook {
    FloatTable middles{kCells.middles};
    FloatTable below{kCells.below};
    FloatTable above{kCells.above};
    __m512i first_codes = _mm512_loadu_si512(kCells.codes);
    __m512i second_codes = _mm512_loadu_si512(kCells.codes + 16);

    [[gnu::always_inline]] static __m512i cells_of(Avx512Lanes x) {
      const __m512 shift = _mm512_set1_ps(kRoundingShift);
      return _mm512_castps_si512(_mm512_fmadd_ps(x.v, _mm512_set1_ps(kCellsPerUnit), shift));
    }
    [[gnu::always_inline]] Avx512Lanes entries(Avx512Lanes x) const {
      const __m512i cells = cells_of(x);
      const Mask is_above = greater(x, {middles.at(cells)});
      return {_mm512_mask_mov_ps(below.at(cells), is_above, above.at(cells))};
    }
    [[gnu::always_inline]] Ints codes(Avx512Lanes x) const {
      const __m512i cells = cells_of(x);
      const Mask is_above = greater(x, {middles.at(cells)});
      const __m512i codes = _mm512_permutex2var_epi32(first_codes, cells, second_codes);
      return _mm512_mask_add_epi32(codes, is_above, codes, _mm512_set1_epi32(1));
    }
  };

  [[gnu::always_inline]] static Avx512Lanes absolute(Avx512Lanes a) { return {_mm512_abs_ps(a.v)}; }
  [[gnu::always_inline]] static Avx512Lanes floor(Avx512Lanes a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
  }
  [[gnu::always_inline]] static Avx512Lanes ceil(Avx512Lanes a) {
    return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC)};
  }
  [[gnu::always_inline]] static Avx512Lanes zero_unless_number(Avx512Lanes a) {
    return {_mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a.v, a.v, _CMP_ORD_Q), a.v)};
  }
  [[gnu::always_inline]] static Mask greater(Avx512Lanes a, Avx512Lanes b) {
    return _mm512_cmp_ps_mask(a.v, b.v, _CMP_GT_OQ);
  }
  [[gnu::always_inline]] static Mask both(Mask p, Mask q) { return static_cast<Mask>(p & q); }
  [[gnu::always_inline]] static Avx512Lanes select(Mask p, Avx512Lanes a, Avx512Lanes b) {
    return {_mm512_mask_mov_ps(b.v, p, a.v)};
  }
  [[gnu::always_inline]] static Ints truncate(Avx512Lanes a) { return _mm512_cvttps_epi32(a.v); }
  template <int kShift>
  [[gnu::always_inline]] static Ints or_shifted(Ints a, Ints b) {
    return _mm512_or_si512(a, _mm512_slli_epi32(b, kShift));
  }
  [[gnu::always_inline]] static Ints lower_four(Ints a) {
    return _mm512_and_si512(a, _mm512_set1_epi32(15));
  }
  [[gnu::always_inline]] static Ints above_four(Ints a) { return _mm512_srli_epi32(a, 4); }
  [[gnu::always_inline]] static void store_codes(unsigned char* p, Ints a, Ints b, Ints c, Ints d) {
    const __m512i low = _mm512_or_si512(a, _mm512_slli_epi32(b, 8));
    const __m512i high = _mm512_or_si512(c, _mm512_slli_epi32(d, 8));
    _mm512_storeu_si512(p, _mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
  }
  [[gnu::always_inline]] static void store_bytes(unsigned char* p, Avx512Lanes a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(truncate(a)));
  }
};

}  // namespace

template <class Weights>
void round_panel_avx512(const RoundPanelTask& task) {
  round_panel_lanes<Avx512Lanes, Ops, Weights>(task);
}

template void round_panel_avx512<Int8Weights>(const RoundPanelTask&);
template void round_panel_avx512<Int4Weights>(const RoundPanelTask&);
template void round_panel_avx512<Int6Weights>(const RoundPanelTask&);

}  // namespace millrace
