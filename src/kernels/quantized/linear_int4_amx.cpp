#include <immintrin.h>

#include "kernels/quantized/linear_quantized_kernel.h"
#include "kernels/quantized/quantized_tiles_amx.h"

namespace millrace {
namespace {

constexpr size_t kGroupBytes = Int4Weights::kGroupBytes;

// How far ahead hints ask for weights: 2 to 6 KiB are as fast, 1 KiB and none a tenth slower.
constexpr size_t kBytesAhead = 3072;

// The codes without kInt4Zero, times what makes a step 256, as often as there are indices of vpermb
// and vpermw: of their six and five bits the upper ones are the next code's.
struct CodeTables {
  alignas(64) int8_t bytes[64];
  alignas(64) int16_t words[32];  // times 256

  constexpr CodeTables() : bytes(), words() {
    for (size_t i = 0; i < 64; ++i) {
      bytes[i] = static_cast<int8_t>((kInt4Codes[i % 16] - kInt4Zero) * (256 >> kStepBits));
    }
    for (size_t i = 0; i < 32; ++i) words[i] = static_cast<int16_t>(bytes[i] * 256);
  }
};
constexpr CodeTables kTables;

// Of a group of 16 rows.
struct GroupScales {
  __m512i of_even;  // words: every row's for two even inputs
  __m512i of_odd;   // bytes: for two odd inputs, and 0 for the even ones

  [[gnu::always_inline]] static GroupScales load(const unsigned char* p) {
    const __m512i rows = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    const __m512i words = _mm512_or_si512(rows, _mm512_slli_epi32(rows, 16));
    return {words, _mm512_slli_epi16(words, 8)};
  }
};

// scaled_code() of the lowest four bits of every byte.
[[gnu::always_inline]] inline __m512i scaled_codes(__m512i indices, const GroupScales& scales) {
  const __m512i words = _mm512_permutexvar_epi16(indices, _mm512_load_si512(kTables.words));
  const __m512i bytes = _mm512_permutexvar_epi8(indices, _mm512_load_si512(kTables.bytes));
  const __m512i even = _mm512_mulhi_epi16(words, scales.of_even);
  const __m512i odd = _mm512_maddubs_epi16(scales.of_odd, bytes);  // wanted: the upper byte
  return _mm512_ternarylogic_epi32(even, odd, _mm512_set1_epi16(0xFF), 0xE4);  // c ? a : b
}

// Weights of multiply_by_tiles().
struct ScaledCodeWeights {
  using Products = ByteProducts;
  static constexpr size_t kBlockInputs = kGroupInputs;
  static constexpr size_t kPanelsAtOnce = 2;

  [[gnu::always_inline]] static void unpack(
      const LinearTask& task, size_t panel, size_t group, size_t num_panels, int8_t* out
  ) {
    const unsigned char* data = panel_at(task, panel);
    const size_t offset = Int4Weights::kLayout.codes_offset(group);
    const unsigned char* codes = data + offset;
    const unsigned char* ahead = hint_at(task, codes, offset, kBytesAhead, num_panels);
    const GroupScales scales = GroupScales::load(data + Int4Weights::kLayout.scales_offset(group));
#pragma GCC unroll 8
    for (size_t line = 0; line < kGroupBytes; line += 64, out += 128) {
      __builtin_prefetch(ahead + line, 0, 2);
      const __m512i eight = _mm512_loadu_si512(codes + line);
      _mm512_store_si512(out, scaled_codes(eight, scales));
      _mm512_store_si512(out + 64, scaled_codes(_mm512_srli_epi16(eight, 4), scales));
    }
  }

  // The sums are integers before.
  static void finish_sums(const LinearTask& task, const TilePlace& place, float* sums) {
    scale_rows<Int4Weights>(task, place, sums, kHalfStep, [&](size_t token, const float* steps) {
      const ByteRow& x = task.x_rows[token];
      const __m512i doubled = _mm512_slli_epi32(_mm512_loadu_si512(steps), 1);
      const __m512i halves = _mm512_add_epi32(doubled, _mm512_set1_epi32(x.sum));
      return Avx512Lanes::mul({_mm512_cvtepi32_ps(halves)}, Avx512Lanes::broadcast(x.scale));
    });
  }
};

}  // namespace

void linear_int4_amx(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  multiply_quantized<ScaledCodeWeights>(task, panel_begin, panel_end);
}

}  // namespace millrace
