#include "emulated_amx/half.h"

#include <bit>
#include <cmath>
#include <limits>

namespace millrace::emulated_amx {
namespace {

// `rounded` is the nearest number to something that is `error` more. Of the two numbers next to
// that the one with an odd last bit: then rounding once more, to a few bits less, gives what
// rounding once would have.
template <class Bits, class T>
T to_odd(T rounded, T error) {
  if (error == 0 || std::bit_cast<Bits>(rounded) % 2 == 1) return rounded;
  const T infinity = std::numeric_limits<T>::infinity();
  return std::nextafter(rounded, error > 0 ? infinity : -infinity);
}

}  // namespace

Float16 multiply_add(Float16 a, Float16 b, Float16 c) {
  const double product = static_cast<double>(to_float(a)) * to_float(b);  // exact
  const double addend = to_float(c);
  const double sum = product + addend;
  if (!std::isfinite(sum)) return to_float16(static_cast<float>(sum));
  // What the sum lost (Knuth, The Art of Computer Programming, 4.2.2, theorem B).
  const double addend_part = sum - product;
  const double error = (product - (sum - addend_part)) + (addend - addend_part);
  const double exact = to_odd<uint64_t>(sum, error);
  const auto narrow = static_cast<float>(exact);
  const auto rest = static_cast<float>(exact - narrow);
  return to_float16(to_odd<uint32_t>(narrow, rest));
}

Float16 half_of(int16_t value) {
  return to_float16(static_cast<float>(value));
}
Float16 half_of(uint16_t value) {
  return to_float16(static_cast<float>(value));
}

}  // namespace millrace::emulated_amx
