#include <immintrin.h>

#include "kernels/machine_limits_kernel.h"
#include "kernels/machine_limits_lanes.h"

namespace millrace {
namespace {

// Written in assembly, here and for the wider registers, because a compiler that sees what is
// computed would not compute it.
struct MulpsAddps : FloatLanes {
  using Register = __m128;
  static constexpr size_t kSums = kDotSumsYmm;
  [[gnu::always_inline]] static Register ones() { return _mm_set1_ps(1.0F); }
  [[gnu::always_inline]] static void step(Register& sum, Register ones) {
    asm volatile("movaps %1, %%xmm15\n\tmulps %1, %%xmm15\n\taddps %%xmm15, %0"
                 : "+x"(sum)
                 : "x"(ones)
                 : "xmm15");
  }
};

struct PlainWords {
  using Register = uint64_t;
  [[gnu::always_inline]] static Register load(const void* p) {
    Register word;
    __builtin_memcpy(&word, p, sizeof(word));
    return word;
  }
  [[gnu::always_inline]] static Register add(Register a, Register b) { return a + b; }
};

}  // namespace

uint64_t sum_words_reference(const void* data, size_t num_bytes) {
  return sum_words_lanes<PlainWords>(data, num_bytes);
}
uint64_t count_mulps_addps(size_t num_rounds) {
  return count_dots<MulpsAddps>(num_rounds);
}

}  // namespace millrace
