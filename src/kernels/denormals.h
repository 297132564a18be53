// Denormal floats read and written as zero, for as long as this lives, on this thread: what
// vdpbf16ps does by itself and other instructions do on demand, so that all give the same bits.
#pragma once

#include <xmmintrin.h>

namespace millrace {

class DenormalsAreZero {
 public:
  DenormalsAreZero() : before_(_mm_getcsr()) { _mm_setcsr(before_ | kFlushToZero | kAreZero); }
  ~DenormalsAreZero() { _mm_setcsr(before_); }
  DenormalsAreZero(const DenormalsAreZero&) = delete;
  DenormalsAreZero& operator=(const DenormalsAreZero&) = delete;

 private:
  static constexpr unsigned kFlushToZero = 0x8000;
  static constexpr unsigned kAreZero = 0x0040;

  unsigned before_;
};

}  // namespace millrace
