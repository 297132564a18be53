#include <type_traits>

#include "kernels/lanes_avx2.h"
#include "kernels/quantized/linear_quantized_lanes.h"

namespace millrace {
namespace {

struct Pair {
  __m256i lo;
  __m256i hi;
};

struct DotsBase {
  using Floats = Avx2Lanes;
  using Bytes = Pair;
  using Sums = Pair;
  using Table = __m256i;
  static constexpr size_t kFewSums = 0;
  static constexpr bool kUnpacks = true;

  [[gnu::always_inline]] static __m256i load(const unsigned char* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  [[gnu::always_inline]] static Table load_table(const unsigned char* codes) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(codes)));
  }
  [[gnu::always_inline]] static Bytes load_bytes(const unsigned char* p) {
    return {load(p), load(p + 32)};
  }
  [[gnu::always_inline]] static __m256i four_bits(__m256i bytes) {
    return _mm256_and_si256(bytes, _mm256_set1_epi8(15));
  }
  [[gnu::always_inline]] static Bytes low_bits(const unsigned char* p) {
    return {four_bits(load(p)), four_bits(load(p + 32))};
  }
  [[gnu::always_inline]] static Bytes high_bits(const unsigned char* p) {
    return {
        four_bits(_mm256_srli_epi16(load(p), 4)), four_bits(_mm256_srli_epi16(load(p + 32), 4))};
  }
  template <size_t kFrom, size_t kBits>
  [[gnu::always_inline]] static __m256i with_high_bits(__m256i low, __m256i stored) {
    __m256i moved = stored;
    if constexpr (kFrom < 4) moved = _mm256_slli_epi16(stored, 4 - kFrom);
    if constexpr (kFrom > 4) moved = _mm256_srli_epi16(stored, kFrom - 4);
    const __m256i mask = _mm256_set1_epi8(((1 << kBits) - 1) << 4);
    return _mm256_or_si256(low, _mm256_and_si256(moved, mask));
  }
  template <size_t kFrom, size_t kBits>
  [[gnu::always_inline]] static Bytes with_high_bits(Bytes low, const unsigned char* p) {
    return {
        with_high_bits<kFrom, kBits>(low.lo, load(p)),
        with_high_bits<kFrom, kBits>(low.hi, load(p + 32))};
  }
  [[gnu::always_inline]] static Bytes low_codes(const unsigned char* p, Table table) {
    const Bytes bits = low_bits(p);
    return {_mm256_shuffle_epi8(table, bits.lo), _mm256_shuffle_epi8(table, bits.hi)};
  }
  [[gnu::always_inline]] static Bytes high_codes(const unsigned char* p, Table table) {
    const Bytes bits = high_bits(p);
    return {_mm256_shuffle_epi8(table, bits.lo), _mm256_shuffle_epi8(table, bits.hi)};
  }
  [[gnu::always_inline]] static void store_pair(unsigned char* p, Pair a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), a.lo);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 32), a.hi);
  }
  [[gnu::always_inline]] static __m256i broadcast_32_bits(const unsigned char* p) {
    int bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return _mm256_set1_epi32(bits);
  }
  [[gnu::always_inline]] static Sums broadcast_sum(int sum) {
    return {_mm256_set1_epi32(sum), _mm256_set1_epi32(sum)};
  }
  [[gnu::always_inline]] static Sums add(Sums a, Sums b) {
    return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
  }
  [[gnu::always_inline]] static Floats as_floats(Sums a) {
    return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)};
  }
  [[gnu::always_inline]] static Floats to_floats(Sums a) {
    return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)};
  }
  [[gnu::always_inline]] static Floats load_scales(const unsigned char* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {
        _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes)),
        _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8)))};
  }
};

// Even and odd bytes become words: products of bytes would exceed 16 bits where two are added
// (vpmaddubsw saturates), and one of words takes inputs of 16 bits at once.
struct WordDots : DotsBase {
  struct Weights {
    Pair even;
    Pair odd;
  };
  struct Inputs {
    __m256i even;
    __m256i odd;
  };
  static constexpr size_t kInputBytes = 2;
  static constexpr size_t kUnpackedBytes = 128;
  static constexpr size_t kInputsAtOnce = 4;

  [[gnu::always_inline]] static Pair even_words(Bytes a) {
    const __m256i mask = _mm256_set1_epi16(0xFF);
    return {_mm256_and_si256(a.lo, mask), _mm256_and_si256(a.hi, mask)};
  }
  [[gnu::always_inline]] static Weights weights_of(Bytes bytes) {
    const Pair odd = {_mm256_srli_epi16(bytes.lo, 8), _mm256_srli_epi16(bytes.hi, 8)};
    return {even_words(bytes), odd};
  }
  [[gnu::always_inline]] static void store_weights(unsigned char* p, Weights weights) {
    store_pair(p, weights.even);
    store_pair(p + 64, weights.odd);
  }
  [[gnu::always_inline]] static Weights load_weights(const unsigned char* p) {
    return {load_bytes(p), load_bytes(p + 64)};
  }
  [[gnu::always_inline]] static Inputs broadcast_inputs(const unsigned char* p) {
    return {broadcast_32_bits(p), broadcast_32_bits(p + 4)};
  }
  [[gnu::always_inline]] static Sums add_products(Pair weights, __m256i inputs, Sums sums) {
    return {
        _mm256_add_epi32(sums.lo, _mm256_madd_epi16(weights.lo, inputs)),
        _mm256_add_epi32(sums.hi, _mm256_madd_epi16(weights.hi, inputs))};
  }
  [[gnu::always_inline]] static Sums dot(Weights weights, Inputs inputs, Sums sums) {
    const Sums even = add_products(weights.even, inputs.even, sums);
    Sums all = add_products(weights.odd, inputs.odd, even);
    // Else the compiler adds in another order, products first, and keeps these in memory.
    asm("" : "+x"(all.lo), "+x"(all.hi));
    return all;
  }
};

// Weights of six bits and inputs of 8: a word takes the products of eight, once it is without what
// weights have added, and until then may overflow.
struct ByteDots : DotsBase {
  using Weights = Bytes;
  using Inputs = __m256i;
  using Words = Pair;
  static constexpr size_t kInputBytes = 1;
  static constexpr size_t kUnpackedBytes = 64;
  static constexpr size_t kInputsAtOnce = 16;

  [[gnu::always_inline]] static Weights weights_of(Bytes bytes) { return bytes; }
  [[gnu::always_inline]] static void store_weights(unsigned char* p, Weights weights) {
    store_pair(p, weights);
  }
  [[gnu::always_inline]] static Weights load_weights(const unsigned char* p) {
    return load_bytes(p);
  }
  [[gnu::always_inline]] static Inputs broadcast_inputs(const unsigned char* p) {
    return broadcast_32_bits(p);
  }
  [[gnu::always_inline]] static Words broadcast_words(const unsigned char* p) {
    const __m256i words = broadcast_32_bits(p);
    return {words, words};
  }
  [[gnu::always_inline]] static Words add_to_words(Weights weights, Inputs inputs, Words words) {
    Words all = {
        _mm256_add_epi16(words.lo, _mm256_maddubs_epi16(weights.lo, inputs)),
        _mm256_add_epi16(words.hi, _mm256_maddubs_epi16(weights.hi, inputs))};
    // Else the compiler adds in another order, products first, and keeps these in memory.
    asm("" : "+x"(all.lo), "+x"(all.hi));
    return all;
  }
  [[gnu::always_inline]] static Sums add_words(Words words, Sums sums) {
    const __m256i ones = _mm256_set1_epi16(1);
    Sums all = {
        _mm256_add_epi32(sums.lo, _mm256_madd_epi16(words.lo, ones)),
        _mm256_add_epi32(sums.hi, _mm256_madd_epi16(words.hi, ones))};
    asm("" : "+x"(all.lo), "+x"(all.hi));
    return all;
  }
};

// 16 registers, two to a panel: 4 x 2 sums of a group, or of words, 4 of weights, 2 of inputs. The
// sums of all groups lie on the stack, with words those of a group too.
struct TileShape {
  static constexpr size_t tokens_for(size_t) { return 4; }
};

}  // namespace

template <class Weights>
void linear_quantized_avx2(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  using Dots = std::conditional_t<kAreOfSixBits<Weights>, ByteDots, WordDots>;
  linear_quantized_lanes<Dots, TileShape>(Weights{}, task, panel_begin, panel_end);
}

template void linear_quantized_avx2<Int8Weights>(const QuantizedTask&, size_t, size_t);
template void linear_quantized_avx2<Int4Weights>(const QuantizedTask&, size_t, size_t);
template void linear_quantized_avx2<Int6Weights>(const QuantizedTask&, size_t, size_t);
MILLRACE_INSTANTIATE_CODES(linear_quantized_avx2)

}  // namespace millrace
