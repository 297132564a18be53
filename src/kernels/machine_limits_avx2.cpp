#include <immintrin.h>

#include "kernels/machine_limits_kernel.h"
#include "kernels/machine_limits_lanes.h"

namespace millrace {
namespace {

struct YmmWords {
  using Register = __m256i;
  [[gnu::always_inline]] static Register load(const void* p) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(p));
  }
  [[gnu::always_inline]] static Register add(Register a, Register b) {
    return _mm256_add_epi64(a, b);
  }
};

struct VfmaddYmm : FloatLanes {
  using Register = __m256;
  static constexpr size_t kSums = kDotSumsYmm;
  [[gnu::always_inline]] static Register ones() { return _mm256_set1_ps(1.0F); }
  [[gnu::always_inline]] static void step(Register& sum, Register ones) {
    asm volatile("vfmadd231ps %1, %1, %0" : "+x"(sum) : "x"(ones));
  }
};

struct VpmaddwdYmm : IntegerLanes {
  using Register = __m256i;
  static constexpr size_t kSums = kDotSumsYmm;
  [[gnu::always_inline]] static Register ones() { return _mm256_set1_epi16(1); }
  [[gnu::always_inline]] static void step(Register& sum, Register ones) {
    Register products;
    asm volatile("vpmaddwd %2, %2, %1; vpaddd %1, %0, %0" : "+x"(sum), "=&x"(products) : "x"(ones));
  }
};

// As linear_quantized multiplies int4: the products of sixteen inputs, in pairs, are added in 16
// bits.
struct VpmaddubswYmm : IntegerLanes {
  using Register = __m256i;
  static constexpr size_t kSums = kDotSumsYmm;
  struct Ones {
    Register bytes;
    Register words;
    Register starts;
  };
  [[gnu::always_inline]] static Ones ones() {
    return {_mm256_set1_epi8(1), _mm256_set1_epi16(1), _mm256_setzero_si256()};
  }
  [[gnu::always_inline]] static void step(Register& sum, const Ones& ones) {
    Register words;
    Register products;
    asm volatile(
        "vpmaddubsw %3, %3, %1; vpaddw %4, %1, %1; vpmaddubsw %3, %3, %2; vpaddw %1, %2, %1;"
        "vpmaddubsw %3, %3, %2; vpaddw %1, %2, %1; vpmaddubsw %3, %3, %2; vpaddw %1, %2, %1;"
        "vpmaddwd %5, %1, %1; vpaddd %1, %0, %0"
        : "+x"(sum), "=&x"(words), "=&x"(products)
        : "x"(ones.bytes), "x"(ones.starts), "x"(ones.words)
    );
  }
};

struct VpdpbusdYmm : IntegerLanes {
  using Register = __m256i;
  static constexpr size_t kSums = kDotSumsYmm;
  [[gnu::always_inline]] static Register ones() { return _mm256_set1_epi8(1); }
  [[gnu::always_inline]] static void step(Register& sum, Register ones) {
    // {vex}: the form of AVX_VNNI, which processors without AVX-512 have.
    asm volatile("%{vex%} vpdpbusd %1, %1, %0" : "+x"(sum) : "x"(ones));
  }
};

}  // namespace

uint64_t sum_words_avx2(const void* data, size_t num_bytes) {
  return sum_words_lanes<YmmWords>(data, num_bytes);
}
uint64_t count_vfmadd_ymm(size_t num_rounds) {
  return count_dots<VfmaddYmm>(num_rounds);
}
uint64_t count_vpmaddwd_ymm(size_t num_rounds) {
  return count_dots<VpmaddwdYmm>(num_rounds);
}
uint64_t count_vpmaddubsw_ymm(size_t num_rounds) {
  return count_dots<VpmaddubswYmm>(num_rounds);
}
uint64_t count_vpdpbusd_ymm(size_t num_rounds) {
  return count_dots<VpdpbusdYmm>(num_rounds);
}

}  // namespace millrace
