// Sixteen floats at once: the vocabulary in which the fast operators are written, and its rules.
//
// An operator's arithmetic stands twice: in x_ref.cpp in plain C++, which is its definition, and in
// x_lanes.h as a template over a type of sixteen lanes. x_avx2.cpp and x_avx512.cpp include that
// template and say what sixteen lanes are: Avx2Lanes (two registers) or Avx512Lanes (one).
// A type of lanes offers, all static and always inlined:
//
//   zero, broadcast(x)
//   load(p), load_first(p, n)         16 or n < 16 elements of float, Float16 or BFloat16, widened;
//                                     the lanes from n on are +0
//   store(p, a), store_first(p, a, n) rounded to the element type, to nearest, ties to even
//   add, sub, mul, div, min, max      lane by lane; min and max give b where a or b is NaN
//   fma(a, b, c), fms(a, b, c)        a * b + c and a * b - c, rounded once
//   add_product(a, b, sum)            sum = fma(a, b, sum), in the sum's own register
//   widen_even(p), widen_odd(p)       the even or odd ones of 32 consecutive BFloat16
//   scale_by_power_of_two(a, t)       a * 2^n where t is the float n + kRoundingShift
//   round_to_bfloat16(a)              to nearest, ties to even, still float
//   even_of(a, b), odd_of(a, b)       the even or odd ones of a's lanes, then of b's
//   transpose(p, stride, out)         16 x 16 floats, rows `stride` apart, to [column][row]
//   sum(a), max_of(a)                 over the lanes; sum adds halves: i + (i + 8), then 4, 2, 1
//
// Rules, because x_avx2.cpp and x_avx512.cpp are compiled for instructions that the machine may
// lack, and the linker keeps only one copy of an inline function that several files compiled:
//   1. They include <immintrin.h>, <cstddef>, <cstdint>, tensor/dtype.h (for its types), this
//   header, *_lanes.h, lanes_*.h, *_kernel.h and those that name these rules, and nothing else.
//   2. All they define, except the functions that *_kernel.h declares, is in an anonymous
//   namespace.
//   3. They call no function and no constructor of any other header: not std::min, not std::span.
//
// Every lane obeys IEEE 754 one operation at a time, so that all instruction sets agree bit by bit.
#pragma once

#include <cstddef>

namespace millrace {

constexpr size_t kLanes = 16;

// 1.5 * 2^23: adding it to a float of magnitude below 2^22 rounds that to the nearest integer,
// which then stands in the low bits.
constexpr float kRoundingShift = 0x1.8p23F;

}  // namespace millrace
