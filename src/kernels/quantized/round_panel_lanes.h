// Rounding sixteen rows at once, one in each lane: no sum crosses lanes, and the codes come out in
// the order in which panels keep them. See lanes.h for the rules of this file. `Ops` is what Lanes
// lack:
//
//   absolute(a), floor(a), ceil(a)
//   zero_unless_number(a)      0 where a is NaN
//   Mask, greater(a, b), both(p, q), select(p, a, b)   a where p, else b
//   Codebook(), book.entries(x), book.codes(x)   of the entry nearest to x, the lower one of two;
//                              |x| is below 204
//   Ints, truncate(a), or_shifted<n>(a, b)       a | b << n
//   lower_four(a), above_four(a)                 a & 15, a >> 4; of Ints that are not negative
//   store_codes(p, a, b, c, d)                   the lowest bytes: [16][4]
//   store_bytes(p, a)                            of whole numbers 0 .. 255
#pragma once

#include "kernels/lanes.h"
#include "kernels/quantized/round_panel_kernel.h"

namespace millrace {
namespace {

constexpr size_t kGroupInputs = 64;

// Writes the group's columns, times the factor and with finite numbers only; returns the largest
// magnitudes.
template <class Lanes, class Ops>
Lanes take_columns(const RoundPanelTask& task, size_t group, float* columns) {
  const size_t stride = task.num_groups * kGroupInputs;
  for (size_t i = 0; i < kGroupInputs; i += kLanes) {
    Lanes::transpose(task.rows + group * kGroupInputs + i, stride, columns + i * kLanes);
  }
  const Lanes factor = Lanes::broadcast(task.factor);
  const Lanes most = Lanes::broadcast(kWeightMost);
  const Lanes least = Lanes::broadcast(-kWeightMost);
  Lanes peaks = Lanes::zero();
  for (size_t i = 0; i < kGroupInputs; ++i) {
    Lanes values = Ops::zero_unless_number(Lanes::mul(Lanes::load(columns + i * kLanes), factor));
    values = Lanes::min(Lanes::max(values, least), most);
    Lanes::store(columns + i * kLanes, values);
    peaks = Lanes::max(peaks, Ops::absolute(values));
  }
  return peaks;
}

template <class Lanes>
struct BestScales {
  Lanes scales;
  Lanes gains;  // by how much the squared error is below that of all zeros
};

// kCount scales from the one of index `first` on: each is replaced by that of least squares for the
// entries that it makes nearest.
template <class Lanes, class Ops, int kCount>
[[gnu::always_inline]] inline void try_scales(
    const float* columns, Lanes peaks, int first, BestScales<Lanes>& best
) {
  const typename Ops::Codebook book;
  const Lanes one = Lanes::broadcast(1.0F);
  Lanes inverses[kCount];
  Lanes dots[kCount];
  Lanes squares[kCount];
#pragma GCC unroll 4
  for (int k = 0; k < kCount; ++k) {
    const float part = kFirstScaleTried + kScaleTriedStep * static_cast<float>(first + k);
    const Lanes unit = Lanes::div(peaks, Lanes::broadcast(kInt4Most));
    inverses[k] = Lanes::div(one, Lanes::mul(unit, Lanes::broadcast(part)));
    dots[k] = Lanes::zero();
    squares[k] = Lanes::zero();
  }
  for (size_t i = 0; i < kGroupInputs; ++i) {
    const Lanes values = Lanes::load(columns + i * kLanes);
#pragma GCC unroll 4
    for (int k = 0; k < kCount; ++k) {
      const Lanes entries = book.entries(Lanes::mul(values, inverses[k]));
      dots[k] = Lanes::add(dots[k], Lanes::mul(values, entries));
      squares[k] = Lanes::fma(entries, entries, squares[k]);  // exact: whole numbers below 2^24
    }
  }
#pragma GCC unroll 4
  for (int k = 0; k < kCount; ++k) {
    const Lanes scale = Lanes::div(dots[k], squares[k]);
    const Lanes gain = Lanes::mul(dots[k], scale);
    const auto is_better =
        Ops::both(Ops::greater(dots[k], Lanes::zero()), Ops::greater(gain, best.gains));
    best.scales = Ops::select(is_better, scale, best.scales);
    best.gains = Ops::select(is_better, gain, best.gains);
  }
}

template <class Lanes, class Ops>
Lanes best_int4_scales(const float* columns, Lanes peaks) {
  constexpr int kTogether = Ops::kScalesTogether;
  static_assert(kNumScalesTried % kTogether == 0);
  BestScales<Lanes> best = {Lanes::zero(), Lanes::broadcast(-1.0F)};
  for (int first = 0; first < kNumScalesTried; first += kTogether) {
    try_scales<Lanes, Ops, kTogether>(columns, peaks, first, best);
  }
  const auto is_some = Ops::greater(peaks, Lanes::broadcast(kInt4PeakLeast));
  return Ops::select(is_some, best.scales, Lanes::zero());
}

// Whole numbers of 1 .. 255 for scales of up to 255 * unit.
template <class Lanes, class Ops, class Weights>
[[gnu::always_inline]] inline Lanes whole_scales(Lanes scales, Lanes units) {
  const Lanes one = Lanes::broadcast(1.0F);
  const Lanes exact = Lanes::div(scales, units);
  const Lanes whole = kAreWhole<Weights>
                          ? Ops::ceil(Lanes::mul(exact, Lanes::broadcast(1.0F - 1e-6F)))
                          : Ops::floor(Lanes::add(exact, Lanes::broadcast(0.5F)));
  const Lanes within = Lanes::min(Lanes::max(whole, one), Lanes::broadcast(255.0F));
  return Ops::select(Ops::greater(units, Lanes::zero()), within, one);
}

// The code of input i of every row. `inverses`: of the scales.
template <class Lanes, class Ops, class Weights>
[[gnu::always_inline]] inline typename Ops::Ints whole_code(
    const float* columns, Lanes inverses, size_t i
) {
  constexpr WholeCodes kWhole = kWholeCodes<Weights>;
  Lanes values = Lanes::mul(Lanes::load(columns + i * kLanes), inverses);
  values = Lanes::max(values, Lanes::broadcast(-kWhole.most));
  values = Lanes::min(values, Lanes::broadcast(kWhole.most));
  return Ops::truncate(Lanes::add(values, Lanes::broadcast(kWhole.zero + 0.5F)));
}

template <class Lanes, class Ops>
void put_group(Int8Weights, const float* columns, Lanes inverses, unsigned char* out) {
  const auto code_at = [&](size_t i) __attribute__((always_inline)) {
    return whole_code<Lanes, Ops, Int8Weights>(columns, inverses, i);
  };
  for (size_t i = 0; i < kGroupInputs; i += 4) {
    Ops::store_codes(out + i * kLanes, code_at(i), code_at(i + 1), code_at(i + 2), code_at(i + 3));
  }
}

template <class Lanes, class Ops>
void put_group(Int6Weights, const float* columns, Lanes inverses, unsigned char* out) {
  using Ints = typename Ops::Ints;
  unsigned char* upper_out = out + Int6Weights::kLowBytes;
  for (size_t i = 0; i < kGroupInputs; i += 16, upper_out += 64) {
    Ints first[4];
    Ints second[4];
    Ints upper[4];
    for (size_t j = 0; j < 4; ++j) {
      Ints fours[4];
      for (size_t four = 0; four < 4; ++four) {
        fours[four] = whole_code<Lanes, Ops, Int6Weights>(columns, inverses, i + 4 * four + j);
      }
      const auto lower = [&](size_t four) { return Ops::lower_four(fours[four]); };
      const auto above = [&](size_t four) { return Ops::above_four(fours[four]); };
      first[j] = Ops::template or_shifted<4>(lower(0), lower(1));
      second[j] = Ops::template or_shifted<4>(lower(2), lower(3));
      const Ints half = Ops::template or_shifted<2>(above(0), above(1));
      const Ints other_half = Ops::template or_shifted<2>(above(2), above(3));
      upper[j] = Ops::template or_shifted<4>(half, other_half);
    }
    Ops::store_codes(out + i / 2 * kLanes, first[0], first[1], first[2], first[3]);
    Ops::store_codes(out + (i / 2 + 4) * kLanes, second[0], second[1], second[2], second[3]);
    Ops::store_codes(upper_out, upper[0], upper[1], upper[2], upper[3]);
  }
}

template <class Lanes, class Ops>
void put_group(Int4Weights, const float* columns, Lanes inverses, unsigned char* out) {
  const typename Ops::Codebook book;
  // Inputs i and i + 4 of eight share a byte.
  const auto codes_at = [&](size_t i) __attribute__((always_inline)) {
    const auto code_at = [&](size_t input) __attribute__((always_inline)) {
      Lanes values = Lanes::mul(Lanes::load(columns + input * kLanes), inverses);
      values = Lanes::max(values, Lanes::broadcast(-kInt4Beyond));
      values = Lanes::min(values, Lanes::broadcast(kInt4Beyond));
      return book.codes(values);
    };
    return Ops::template or_shifted<4>(code_at(i), code_at(i + 4));
  };
  for (size_t i = 0; i < kGroupInputs; i += 8) {
    Ops::store_codes(
        out + i / 2 * kLanes, codes_at(i), codes_at(i + 1), codes_at(i + 2), codes_at(i + 3)
    );
  }
}

template <class Lanes, class Ops, class Weights>
void round_panel_lanes(const RoundPanelTask& task) {
  alignas(64) float columns[kGroupInputs * kLanes];
  Lanes largest = Lanes::zero();
  for (size_t group = 0; group < task.num_groups; ++group) {
    const Lanes peaks = take_columns<Lanes, Ops>(task, group, columns);
    Lanes scales;
    if constexpr (kAreWhole<Weights>) {
      scales = Lanes::div(peaks, Lanes::broadcast(kWholeCodes<Weights>.most));
    } else {
      scales = best_int4_scales<Lanes, Ops>(columns, peaks);
    }
    Lanes::store(task.scales + group * kLanes, scales);
    largest = Lanes::max(largest, scales);
  }
  const Lanes units = Lanes::div(largest, Lanes::broadcast(255.0F));
  Lanes::store(reinterpret_cast<float*>(row_scales_of<Weights>(task)), units);
  for (size_t group = 0; group < task.num_groups; ++group) {
    const Lanes scales = Lanes::load(task.scales + group * kLanes);
    const Lanes whole = whole_scales<Lanes, Ops, Weights>(scales, units);
    Ops::store_bytes(scales_of<Weights>(task, group), whole);
    const Lanes scale = Lanes::mul(whole, units);
    const Lanes inverse =
        Lanes::min(Lanes::div(Lanes::broadcast(1.0F), scale), Lanes::broadcast(0x1.fffffep127F));
    const Lanes inverses = Ops::select(Ops::greater(scale, Lanes::zero()), inverse, Lanes::zero());
    // Again: columns of a whole panel would leave the second-level cache.
    take_columns<Lanes, Ops>(task, group, columns);
    put_group<Lanes, Ops>(Weights{}, columns, inverses, codes_of<Weights>(task, group));
  }
}

}  // namespace
}  // namespace millrace
