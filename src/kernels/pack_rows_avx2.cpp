#include <immintrin.h>

#include "kernels/lanes_avx2.h"
#include "kernels/pack_rows_kernel.h"
#include "kernels/pack_rows_lanes.h"

namespace millrace {
namespace {

struct Words {
  static constexpr size_t kRows = 8;

  struct Pairs {
    __m256i pair[4];
  };
  [[gnu::always_inline]] static Pairs load_pairs(const BFloat16* p, size_t stride) {
    const __m256i a = load_rows(p, 4 * stride);
    const __m256i b = load_rows(p + stride, 4 * stride);
    const __m256i c = load_rows(p + 2 * stride, 4 * stride);
    const __m256i d = load_rows(p + 3 * stride, 4 * stride);
    const __m256i ab_low = _mm256_unpacklo_epi32(a, b);
    const __m256i ab_high = _mm256_unpackhi_epi32(a, b);
    const __m256i cd_low = _mm256_unpacklo_epi32(c, d);
    const __m256i cd_high = _mm256_unpackhi_epi32(c, d);
    return {
        {_mm256_unpacklo_epi64(ab_low, cd_low),
         _mm256_unpackhi_epi64(ab_low, cd_low),
         _mm256_unpacklo_epi64(ab_high, cd_high),
         _mm256_unpackhi_epi64(ab_high, cd_high)}};
  }

  struct Table {
    __m256i low;  // bytes of the exponents
    __m256i high;
    __m256i codes;  // of the window's exponents
    __m256i first;

    explicit Table(const PackBlocksTask& task)
        : codes(twice(task.codes)),
          first(_mm256_set1_epi16(static_cast<short>(task.first_exponent))) {
      uint8_t low_bytes[16];
      uint8_t high_bytes[16];
      for (size_t i = 0; i < 16; ++i) {
        low_bytes[i] = task.table[2 * i];
        high_bytes[i] = task.table[2 * i + 1];
      }
      low = twice(low_bytes);
      high = twice(high_bytes);
    }
  };

  class Codes {
   public:
    explicit Codes(const Table& table) : table_(table) {}

    template <int kPair>
    [[gnu::always_inline]] void add(__m256i pair, uint8_t* rests) {
      const __m256i exponents = _mm256_and_si256(pair, _mm256_set1_epi16(0x7F80));
      const __m256i index = _mm256_sub_epi16(_mm256_srli_epi16(exponents, 7), table_.first);
      // The shuffle takes the lowest byte's last four bits; what it finds there for an exponent
      // outside of the window is seen when the code's exponent differs.
      const __m256i is_zero = _mm256_cmpeq_epi16(exponents, _mm256_setzero_si256());
      const __m256i found = look_up(table_.codes, _mm256_and_si256(index, _mm256_set1_epi16(15)));
      const __m256i codes = _mm256_andnot_si256(is_zero, found);
      const __m256i coded = _mm256_or_si256(
          look_up(table_.low, codes), _mm256_slli_epi16(look_up(table_.high, codes), 8)
      );
      same_ = _mm256_and_si256(same_, _mm256_cmpeq_epi16(coded, exponents));
      codes_ = _mm256_or_si256(codes_, _mm256_slli_epi16(codes, 4 * kPair));

      const __m256i sign = _mm256_and_si256(_mm256_srli_epi16(pair, 8), _mm256_set1_epi16(0x80));
      const __m256i mantissa = _mm256_and_si256(pair, _mm256_set1_epi16(0x7F));
      const __m256i rest = _mm256_or_si256(sign, mantissa);
      // Packing works within 128-bit halves; the permutation puts the quarters back in order.
      const __m256i bytes = _mm256_permute4x64_epi64(_mm256_packus_epi16(rest, rest), 0x08);
      void* to = rests;
      _mm_storeu_si128(static_cast<__m128i*>(to), _mm256_castsi256_si128(bytes));
    }
    [[gnu::always_inline]] bool store(uint8_t* codes) const {
      void* to = codes;
      _mm256_storeu_si256(static_cast<__m256i*>(to), codes_);
      return _mm256_movemask_epi8(same_) == -1;
    }

   private:
    // Of 16-bit indices below 16; a shuffle gives zero for a byte with its top bit set.
    [[gnu::always_inline]] static __m256i look_up(__m256i bytes, __m256i index) {
      const __m256i unused = _mm256_set1_epi16(static_cast<short>(0x8000));
      return _mm256_shuffle_epi8(bytes, _mm256_or_si256(index, unused));
    }

    const Table& table_;
    __m256i codes_ = _mm256_setzero_si256();
    __m256i same_ = _mm256_set1_epi16(-1);
  };

 private:
  [[gnu::always_inline]] static __m128i load_eight(const void* p) {
    return _mm_loadu_si128(static_cast<const __m128i*>(p));
  }
  [[gnu::always_inline]] static __m256i twice(const uint8_t* bytes) {
    return _mm256_broadcastsi128_si256(load_eight(bytes));
  }
  [[gnu::always_inline]] static __m256i load_rows(const BFloat16* p, size_t stride) {
    return _mm256_inserti128_si256(
        _mm256_castsi128_si256(load_eight(p)), load_eight(p + stride), 1
    );
  }
};

}  // namespace

void pack_blocks_avx2(const PackBlocksTask& task) {
  pack_blocks_lanes<Words>(task);
}

template <class Out>
size_t transpose_rows_avx2(const float* rows, size_t num_columns, Out* out) {
  return transpose_rows_lanes<Avx2Lanes>(rows, num_columns, out);
}

template size_t transpose_rows_avx2<float>(const float*, size_t, float*);
template size_t transpose_rows_avx2<Float16>(const float*, size_t, Float16*);

}  // namespace millrace
