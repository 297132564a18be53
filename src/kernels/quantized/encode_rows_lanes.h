// encode_rows on sixteen lanes. See lanes.h for the rules of this file. `Ops` is what Lanes lack,
// as in rotate_rows_lanes.h, and
//
//   absolute(a)
//   store_rounded(p, parts, sums)   four Lanes to the nearest bytes, which are added to `sums`, of
//                       type ByteSums, whose lanes() together are their total. REQUIRES: magnitudes
//                       that round to 127 at most; what is no number becomes any byte
#pragma once

#include "kernels/lanes.h"
#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/quantized/rotate_rows_lanes.h"

namespace millrace {
namespace {

// Lanes of sixteen groups, to be combined within each group: for all of them at once, because the
// lanes of one are combined one step after the other.
template <class Lanes>
struct LanesOfGroups {
  alignas(64) float rows[kLanes * kLanes];

  [[gnu::always_inline]] void put(size_t group, Lanes lanes) {
    Lanes::store(rows + group * kLanes, lanes);
  }
  // Lane i of the result is of group i, of which there are `num_groups`.
  template <class Function>
  [[gnu::always_inline]] Lanes combined(size_t num_groups, const Function& function) {
    for (size_t group = num_groups; group < kLanes; ++group) put(group, Lanes::zero());
    alignas(64) float columns[kLanes * kLanes];
    Lanes::transpose(rows, kLanes, columns);
    Lanes result = Lanes::load(columns);
#pragma GCC unroll 15
    for (size_t i = 1; i < kLanes; ++i) {
      result = function(result, Lanes::load(columns + i * kLanes));
    }
    return result;
  }
};

// Lane i of each term to out[i][term], for i < n.
template <class Lanes, size_t kTerms>
[[gnu::always_inline]] inline void store_terms(float* out, const Lanes (&terms)[kTerms], size_t n) {
  if constexpr (kTerms == 1) {
    Lanes::store_first(out, terms[0], n);
  } else {
    float values[kTerms][kLanes];
    for (size_t term = 0; term < kTerms; ++term) Lanes::store(values[term], terms[term]);
    for (size_t i = 0; i < n; ++i) {
      for (size_t term = 0; term < kTerms; ++term) out[i * kTerms + term] = values[term][i];
    }
  }
}

// What the nearest integers leave over, in steps of a second term.
template <class Lanes>
[[gnu::always_inline]] inline void to_steps_of_second_term(Lanes (&steps)[4]) {
#pragma GCC unroll 4
  for (size_t part = 0; part < 4; ++part) {
    const Lanes shift = Lanes::broadcast(kRoundingShift);
    const Lanes rounded = Lanes::sub(Lanes::add(steps[part], shift), shift);
    steps[part] = Lanes::mul(Lanes::sub(steps[part], rounded), Lanes::broadcast(kSecondTermSteps));
  }
}

// Groups of one row from `begin` on, sixteen or what is left; blocks do not go beyond them. The
// same inputs of `next_row` are asked for meanwhile: what other cores wrote comes from far.
template <class Lanes, class Ops, size_t kTerms>
void encode_groups(const EncodeTask& task, size_t row, size_t next_row, size_t begin) {
  const RowsToRotate& rows = task.rows;
  const size_t rest = rows.num_groups - begin;
  const size_t num_groups = rest < kLanes ? rest : kLanes;
  alignas(64) float rotated[kLanes * 64];
  LanesOfGroups<Lanes> peaks;
  for (size_t i = 0; i < num_groups * 64; i += rows.rotation) {
    const float* const next = rows.x + next_row * rows.stride + begin * 64 + i;
    for (size_t line = 0; line < rows.rotation; line += kLanes) __builtin_prefetch(next + line);
    for_rotated_groups<Lanes, Ops>(
        rows,
        row,
        begin * 64 + i,
        [&](size_t input, const Lanes(&parts)[4]) {
          const size_t place = i + input;
#pragma GCC unroll 4
          for (size_t part = 0; part < 4; ++part) {
            Lanes::store(rotated + place + part * kLanes, parts[part]);
          }
          const Lanes first = Lanes::max(Ops::absolute(parts[0]), Ops::absolute(parts[1]));
          const Lanes second = Lanes::max(Ops::absolute(parts[2]), Ops::absolute(parts[3]));
          peaks.put(place / 64, Lanes::max(first, second));
        }
    );
  }
  // In this order what is no number stays.
  const Lanes peak =
      Lanes::max(Lanes::broadcast(kLeastPeak), peaks.combined(num_groups, [](Lanes a, Lanes b) {
        return Lanes::max(a, b);
      }));
  float inverses[kLanes];
  Lanes::store(inverses, Lanes::div(Lanes::broadcast(127.0F), peak));

  unsigned char* const values = task.out + row * task.out_stride;
  LanesOfGroups<Lanes> sums[kTerms];
  for (size_t group = 0; group < num_groups; ++group) {
    Lanes steps[4];
#pragma GCC unroll 4
    for (size_t part = 0; part < 4; ++part) {
      steps[part] = Lanes::mul(
          Lanes::load(rotated + group * 64 + part * kLanes), Lanes::broadcast(inverses[group])
      );
    }
#pragma GCC unroll 2
    for (size_t term = 0; term < kTerms; ++term) {
      if (term > 0) to_steps_of_second_term(steps);
      typename Ops::ByteSums sum;
      Ops::store_rounded(values + ((begin + group) * kTerms + term) * 64, steps, sum);
      sums[term].put(group, sum.lanes());
    }
  }

  float* const scales = reinterpret_cast<float*>(values + rows.num_groups * kTerms * 64);
  float* const starts = scales + rows.num_groups * kTerms;
  Lanes scales_of_terms[kTerms];
  Lanes starts_of_terms[kTerms];
  Lanes scale = Lanes::mul(peak, Lanes::broadcast(1.0F / 127.0F));
#pragma GCC unroll 2
  for (size_t term = 0; term < kTerms; ++term) {
    scales_of_terms[term] = scale;
    scale = Lanes::mul(scale, Lanes::broadcast(1.0F / kSecondTermSteps));
    // kSumStart - 128 * sum, in the bits of a float: exact below 2^22.
    starts_of_terms[term] = Lanes::fma(
        sums[term].combined(num_groups, [](Lanes a, Lanes b) { return Lanes::add(a, b); }),
        Lanes::broadcast(-128.0F),
        Lanes::broadcast(kRoundingShift)
    );
  }
  store_terms(scales + begin * kTerms, scales_of_terms, num_groups);
  store_terms(starts + begin * kTerms, starts_of_terms, num_groups);
}

template <class Lanes, class Ops>
void encode_lanes(const EncodeTask& task, size_t row_begin, size_t row_end) {
  for (size_t row = row_begin; row < row_end; ++row) {
    const size_t next_row = row + 1 < row_end ? row + 1 : row;
    for (size_t begin = 0; begin < task.rows.num_groups; begin += kLanes) {
      if (task.num_terms == 2) {
        encode_groups<Lanes, Ops, 2>(task, row, next_row, begin);
      } else {
        encode_groups<Lanes, Ops, 1>(task, row, next_row, begin);
      }
    }
  }
}

}  // namespace
}  // namespace millrace
