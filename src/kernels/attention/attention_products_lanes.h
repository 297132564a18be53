// How the products of attention are added up for each kind of keys and values, on sixteen lanes.
// See lanes.h for the rules of this file.
//
// A product takes up kDepth elements of the sum at once, in kParts parts that are done for a whole
// tile one after the other. `Element` is what K and V hold, `Operand` what is multiplied with them:
// q, and the exponentials of the scores.
//
//   vector<part>(p)           sixteen of K or V; vector_first<part>(p, n): n of them, then zeros
//   operand<part>(x)          broadcast
//   without_odd<part>(v)      with zero for the second element of the depth
//   add(sums, vector, operand)
//   add_read<part>(sums, vector, x) the same as add(sums, vector, operand<part>(x)), without a
//                             register for the operand; where kCanRead
//   exp(x)                    of scores' differences to the largest, as exact as a weight can be
//   store(p, a)               16 floats as operands, rounded to them
//   store_weights(p, a, b, s) 32 likewise; returns s with the rounded ones added
#pragma once

#include "kernels/attention/kv_layout_kernel.h"
#include "kernels/exp_lanes.h"
#include "kernels/lanes.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

// A fused multiply-add for each element. T: float or Float16.
template <class Lanes, class T>
struct EachElement {
  using Element = T;
  using Operand = float;
  static constexpr size_t kDepth = kKvDepth<T>;
  static constexpr size_t kParts = 1;
  static constexpr bool kCanRead = false;

  template <size_t kPart>
  [[gnu::always_inline]] static Lanes vector(const T* p) {
    return Lanes::load(p);
  }
  template <size_t kPart>
  [[gnu::always_inline]] static Lanes vector_first(const T* p, size_t n) {
    return Lanes::load_first(p, n);
  }
  template <size_t kPart>
  [[gnu::always_inline]] static Lanes operand(const float* x) {
    return Lanes::broadcast(*x);
  }
  template <size_t kPart>
  [[gnu::always_inline]] static Lanes without_odd(Lanes v) {
    return v;  // there is none
  }
  [[gnu::always_inline]] static Lanes add(Lanes sums, Lanes vector, Lanes operand) {
    Lanes::add_product(vector, operand, sums);
    return sums;
  }
  [[gnu::always_inline]] static Lanes exp(Lanes x) { return exp_of_moderate(x); }
  [[gnu::always_inline]] static void store(float* p, Lanes a) { Lanes::store(p, a); }
  [[gnu::always_inline]] static Lanes store_weights(float* p, Lanes a, Lanes b, Lanes sums) {
    Lanes::store(p, a);
    Lanes::store(p + kLanes, b);
    return Lanes::add(Lanes::add(sums, a), b);
  }
};

// Two for each pair of bfloat16, the odd one first, as vdpbf16ps adds them.
template <class Lanes>
struct EachOfPair {
  using Element = BFloat16;
  using Operand = float;  // rounded to bfloat16
  static constexpr size_t kDepth = kKvDepth<BFloat16>;
  static constexpr size_t kParts = 2;
  static constexpr bool kCanRead = false;

  template <size_t kPart>
  [[gnu::always_inline]] static Lanes vector(const BFloat16* p) {
    return kPart == 0 ? Lanes::widen_odd(p) : Lanes::widen_even(p);
  }
  // Through a copy: never in an inner loop of a real model.
  template <size_t kPart>
  [[gnu::always_inline]] static Lanes vector_first(const BFloat16* p, size_t n) {
    BFloat16 copy[2 * kLanes] = {};
    for (size_t i = 0; i < 2 * n; ++i) copy[i] = p[i];
    return vector<kPart>(copy);
  }
  template <size_t kPart>
  [[gnu::always_inline]] static Lanes operand(const float* x) {
    return Lanes::broadcast(x[1 - kPart]);
  }
  template <size_t kPart>
  [[gnu::always_inline]] static Lanes without_odd(Lanes v) {
    return kPart == 0 ? Lanes::zero() : v;
  }
  [[gnu::always_inline]] static Lanes add(Lanes sums, Lanes vector, Lanes operand) {
    Lanes::add_product(vector, operand, sums);
    return sums;
  }
  [[gnu::always_inline]] static Lanes exp(Lanes x) { return coarse_exp_of_moderate(x); }
  [[gnu::always_inline]] static void store(float* p, Lanes a) {
    Lanes::store(p, Lanes::round_to_bfloat16(a));
  }
  [[gnu::always_inline]] static Lanes store_weights(float* p, Lanes a, Lanes b, Lanes sums) {
    const Lanes first = Lanes::round_to_bfloat16(a);
    const Lanes second = Lanes::round_to_bfloat16(b);
    Lanes::store(p, first);
    Lanes::store(p + kLanes, second);
    sums = Lanes::add(sums, Lanes::odd_of(first, second));
    return Lanes::add(sums, Lanes::even_of(first, second));
  }
};

}  // namespace
}  // namespace millrace
