#include <immintrin.h>

#include "kernels/lanes_avx512.h"
#include "kernels/pack_rows_kernel.h"
#include "kernels/pack_rows_lanes.h"

namespace millrace {
namespace {

struct Words {
  static constexpr size_t kRows = 16;

  struct Pairs {
    __m512i pair[4];
  };
  [[gnu::always_inline]] static Pairs load_pairs(const BFloat16* p, size_t stride) {
    const __m512i a = load_rows(p, 4 * stride);
    const __m512i b = load_rows(p + stride, 4 * stride);
    const __m512i c = load_rows(p + 2 * stride, 4 * stride);
    const __m512i d = load_rows(p + 3 * stride, 4 * stride);
    const __m512i ab_low = _mm512_unpacklo_epi32(a, b);
    const __m512i ab_high = _mm512_unpackhi_epi32(a, b);
    const __m512i cd_low = _mm512_unpacklo_epi32(c, d);
    const __m512i cd_high = _mm512_unpackhi_epi32(c, d);
    return {
        {_mm512_unpacklo_epi64(ab_low, cd_low),
         _mm512_unpackhi_epi64(ab_low, cd_low),
         _mm512_unpacklo_epi64(ab_high, cd_high),
         _mm512_unpackhi_epi64(ab_high, cd_high)}};
  }

  struct Table {
    __m512i exponents;
    __m512i codes;  // of the window's exponents, then zeros
    __m512i first;

    explicit Table(const PackBlocksTask& task)
        : exponents(_mm512_loadu_si512(task.table)),
          first(_mm512_set1_epi16(static_cast<short>(task.first_exponent))) {
      const void* bytes = task.codes;
      const __m256i words =
          _mm256_cvtepu8_epi16(_mm_loadu_si128(static_cast<const __m128i*>(bytes)));
      codes = _mm512_zextsi256_si512(words);
    }
  };

  class Codes {
   public:
    explicit Codes(const Table& table) : table_(table) {}

    template <int kPair>
    [[gnu::always_inline]] void add(__m512i pair, uint8_t* rests) {
      const __m512i exponent_bits = _mm512_set1_epi16(0x7F80);
      const __m512i exponents = _mm512_and_si512(pair, exponent_bits);
      const __m512i index = _mm512_sub_epi16(_mm512_srli_epi16(exponents, 7), table_.first);
      // The permutation takes the index modulo 32; what it finds there for another exponent is
      // seen when the code's exponent differs.
      const __m512i codes = _mm512_maskz_permutexvar_epi16(
          _mm512_test_epi16_mask(pair, exponent_bits), index, table_.codes
      );
      const __m512i coded = _mm512_permutexvar_epi16(codes, table_.exponents);
      others_ |= _mm512_cmpneq_epi16_mask(coded, exponents);
      codes_ = _mm512_or_si512(codes_, _mm512_slli_epi16(codes, 4 * kPair));

      const __m512i sign = _mm512_and_si512(_mm512_srli_epi16(pair, 8), _mm512_set1_epi16(0x80));
      const __m512i mantissa = _mm512_and_si512(pair, _mm512_set1_epi16(0x7F));
      void* to = rests;
      _mm256_storeu_si256(
          static_cast<__m256i*>(to), _mm512_cvtepi16_epi8(_mm512_or_si512(sign, mantissa))
      );
    }
    [[gnu::always_inline]] bool store(uint8_t* codes) const {
      _mm512_storeu_si512(codes, codes_);
      return others_ == 0;
    }

   private:
    const Table& table_;
    __m512i codes_ = _mm512_setzero_si512();
    __mmask32 others_ = 0;
  };

 private:
  [[gnu::always_inline]] static __m512i load_rows(const BFloat16* p, size_t stride) {
    const __m256i low =
        _mm256_inserti128_si256(_mm256_castsi128_si256(load_eight(p)), load_eight(p + stride), 1);
    const __m256i high = _mm256_inserti128_si256(
        _mm256_castsi128_si256(load_eight(p + 2 * stride)), load_eight(p + 3 * stride), 1
    );
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
  [[gnu::always_inline]] static __m128i load_eight(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
  }
};

}  // namespace

void pack_blocks_avx512(const PackBlocksTask& task) {
  pack_blocks_lanes<Words>(task);
}

template <class Out>
size_t transpose_rows_avx512(const float* rows, size_t num_columns, Out* out) {
  return transpose_rows_lanes<Avx512Lanes>(rows, num_columns, out);
}

template size_t transpose_rows_avx512<float>(const float*, size_t, float*);
template size_t transpose_rows_avx512<Float16>(const float*, size_t, Float16*);

}  // namespace millrace
