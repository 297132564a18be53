#include <immintrin.h>

#include "kernels/machine_limits_kernel.h"
#include "kernels/machine_limits_lanes.h"

namespace millrace {
namespace {

struct ZmmWords {
  using Register = __m512i;
  [[gnu::always_inline]] static Register load(const void* p) { return _mm512_loadu_si512(p); }
  [[gnu::always_inline]] static Register add(Register a, Register b) {
    return _mm512_add_epi64(a, b);
  }
};

struct VfmaddZmm : FloatLanes {
  using Register = __m512;
  static constexpr size_t kSums = kDotSumsZmm;
  [[gnu::always_inline]] static Register ones() { return _mm512_set1_ps(1.0F); }
  [[gnu::always_inline]] static void step(Register& sum, Register ones) {
    asm volatile("vfmadd231ps %1, %1, %0" : "+v"(sum) : "v"(ones));
  }
};

// In assembly this needs no compiler flag for the instruction, only a processor that has it.
struct Vdpbf16psZmm : FloatLanes {
  using Register = __m512;
  static constexpr size_t kSums = kDotSumsZmm;
  [[gnu::always_inline]] static __m512i ones() { return _mm512_set1_epi16(0x3F80); }  // bfloat16
  [[gnu::always_inline]] static void step(Register& sum, __m512i ones) {
    asm volatile("vdpbf16ps %1, %1, %0" : "+v"(sum) : "v"(ones));
  }
};

struct VpmaddwdZmm : IntegerLanes {
  using Register = __m512i;
  static constexpr size_t kSums = kDotSumsZmm;
  [[gnu::always_inline]] static Register ones() { return _mm512_set1_epi16(1); }
  [[gnu::always_inline]] static void step(Register& sum, Register ones) {
    Register products;
    asm volatile("vpmaddwd %2, %2, %1; vpaddd %1, %0, %0" : "+v"(sum), "=&v"(products) : "v"(ones));
  }
};

// As linear_quantized multiplies int4: the products of eight inputs, two by two, fit 16 bits.
struct VpmaddubswZmm : IntegerLanes {
  using Register = __m512i;
  static constexpr size_t kSums = kDotSumsZmm;
  struct Ones {
    Register bytes;
    Register words;
  };
  [[gnu::always_inline]] static Ones ones() { return {_mm512_set1_epi8(1), _mm512_set1_epi16(1)}; }
  [[gnu::always_inline]] static void step(Register& sum, const Ones& ones) {
    Register first;
    Register second;
    asm volatile(
        "vpmaddubsw %3, %3, %1; vpmaddubsw %3, %3, %2; vpaddw %1, %2, %1;"
        "vpmaddwd %4, %1, %1; vpaddd %1, %0, %0"
        : "+v"(sum), "=&v"(first), "=&v"(second)
        : "v"(ones.bytes), "v"(ones.words)
    );
  }
};

struct VpdpbusdZmm : IntegerLanes {
  using Register = __m512i;
  static constexpr size_t kSums = kDotSumsZmm;
  [[gnu::always_inline]] static Register ones() { return _mm512_set1_epi8(1); }
  [[gnu::always_inline]] static void step(Register& sum, Register ones) {
    asm volatile("vpdpbusd %1, %1, %0" : "+v"(sum) : "v"(ones));
  }
};

}  // namespace

uint64_t sum_words_avx512(const void* data, size_t num_bytes) {
  return sum_words_lanes<ZmmWords>(data, num_bytes);
}
uint64_t count_vfmadd_zmm(size_t num_rounds) {
  return count_dots<VfmaddZmm>(num_rounds);
}
uint64_t count_vdpbf16ps_zmm(size_t num_rounds) {
  return count_dots<Vdpbf16psZmm>(num_rounds);
}
uint64_t count_vpmaddwd_zmm(size_t num_rounds) {
  return count_dots<VpmaddwdZmm>(num_rounds);
}
uint64_t count_vpmaddubsw_zmm(size_t num_rounds) {
  return count_dots<VpmaddubswZmm>(num_rounds);
}
uint64_t count_vpdpbusd_zmm(size_t num_rounds) {
  return count_dots<VpdpbusdZmm>(num_rounds);
}

}  // namespace millrace
