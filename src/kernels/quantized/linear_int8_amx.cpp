#include <immintrin.h>

#include "kernels/quantized/linear_quantized_kernel.h"
#include "kernels/quantized/quantized_tiles_amx.h"

namespace millrace {
namespace {

constexpr size_t kGroupBytes = Int8Weights::kGroupBytes;

// How far ahead hints ask for weights: 1, 2 and 8 KiB are as fast.
constexpr size_t kBytesAhead = 2048;

// Group scales of 16 rows, each for a pair of weights.
struct GroupScales {
  __m512h scales;
  __m512h zeros;  // what a code of 128 comes to: -128 * scale

  [[gnu::always_inline]] static GroupScales load(const unsigned char* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m512i words = _mm512_cvtepu8_epi32(bytes);
    const __m512i pairs = _mm512_or_si512(words, _mm512_slli_epi32(words, 16));
    const __m512i zeros = _mm512_mullo_epi16(pairs, _mm512_set1_epi16(-128));
    return {_mm512_cvtepu16_ph(pairs), _mm512_cvtepi16_ph(zeros)};
  }
};

// Weights of pairs of codes, which have 128 added: the fused multiply-add takes that away and
// rounds once. As cut_to_bfloat16() of linear_quantized_kernel.h.
[[gnu::always_inline]] inline __m512i weights_of(__m512i codes, const GroupScales& group) {
  const __m512h values = _mm512_fmadd_ph(_mm512_cvtepu16_ph(codes), group.scales, group.zeros);
  const __m512i moved = _mm512_srai_epi16(_mm512_castph_si512(values), 3);
  const __m512i kept = _mm512_set1_epi16(static_cast<short>(0x8FFF));
  return _mm512_ternarylogic_epi32(moved, kept, _mm512_set1_epi16(0x3000), 0xEA);  // (a & b) | c
}

// Weights of multiply_by_tiles().
struct CodeWeights {
  using Products = BFloat16Products;
  static constexpr size_t kBlockInputs = Products::kStepInputs;
  static constexpr size_t kPanelsAtOnce = 2;

  // Of each four inputs 0 and 2 are a pair, and 1 and 3.
  [[gnu::always_inline]] static void unpack(
      const LinearTask& task, size_t panel, size_t index, size_t num_panels, BFloat16* out
  ) {
    constexpr size_t kBlockBytes = kGroupBytes * kBlockInputs / kGroupInputs;
    const unsigned char* data = panel_at(task, panel);
    const size_t group = index * kBlockInputs / kGroupInputs;
    const size_t offset = Int8Weights::kLayout.codes_offset(group) +
                          index * kBlockInputs % kGroupInputs / kBlockInputs * kBlockBytes;
    const unsigned char* codes = data + offset;
    const unsigned char* ahead = hint_at(task, codes, offset, kBytesAhead, num_panels);
    const GroupScales scales = GroupScales::load(data + Int8Weights::kLayout.scales_offset(group));
#pragma GCC unroll 8
    for (size_t line = 0; line < kBlockBytes; line += 64, out += 64) {
      __builtin_prefetch(ahead + line, 0, 2);
      const __m512i four = _mm512_loadu_si512(codes + line);
      const __m512i even = _mm512_and_si512(four, _mm512_set1_epi16(0xFF));
      _mm512_store_si512(out, weights_of(even, scales));
      _mm512_store_si512(out + 32, weights_of(_mm512_srli_epi16(four, 8), scales));
    }
  }

  static void finish_sums(const LinearTask& task, const TilePlace& place, float* sums) {
    scale_rows<Int8Weights>(task, place, sums, kCutScale, [](size_t, const float* values) {
      return Avx512Lanes::load(values);
    });
  }
};

}  // namespace

void linear_int8_amx(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  multiply_quantized<CodeWeights>(task, panel_begin, panel_end);
}

}  // namespace millrace
