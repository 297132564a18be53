// How groups of a row are rounded and written, on sixteen lanes. See lanes.h for the rules of this
// file. `Ops` is what Lanes lack, as in rotated_row_lanes.h, and
//
//   store_rounded(p, parts, sums)   four Lanes to the nearest bytes, which are added to `sums`, of
//                       type ByteSums, whose lanes() together are their total. REQUIRES: magnitudes
//                       that round to 127 at most; what is no number becomes any byte
//   store_word_starts(p, bytes, zero)   what words of a group's products begin with (InputForm), to
//                       take away `zero` times its bytes; where there are such
//   store_words(p, a)   sixteen integers of 16 bits as words, with the second and the third of
//                       every four exchanged; what is no number becomes any word
#pragma once

#include "kernels/lanes.h"
#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/quantized/rotated_row_lanes.h"

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

template <class Ops>
constexpr bool kHasWordStarts = requires {
  &Ops::store_word_starts;
};

// The nearest integers.
template <class Lanes>
[[gnu::always_inline]] inline Lanes rounded(Lanes a) {
  const Lanes shift = Lanes::broadcast(kRoundingShift);
  return Lanes::sub(Lanes::add(a, shift), shift);
}

// A group's integers in words.
template <class Lanes, class Ops>
[[gnu::always_inline]] inline void store_words(unsigned char* out, const Lanes (&integers)[4]) {
#pragma GCC unroll 4
  for (size_t part = 0; part < 4; ++part) Ops::store_words(out + part * 32, integers[part]);
}

// A group's integers of 16 bits, in words or in two bytes. A lower byte is at least -128 and at
// most 127: halves are rounded upwards.
template <class Lanes, class Ops>
[[gnu::always_inline]] inline void store_numbers(
    bool in_words, unsigned char* out, const Lanes (&numbers)[4]
) {
  if (in_words) return store_words<Lanes, Ops>(out, numbers);
  Lanes upper[4];
  Lanes lower[4];
#pragma GCC unroll 4
  for (size_t part = 0; part < 4; ++part) {
    const Lanes quarter = Lanes::broadcast(0.25F / 256.0F);
    upper[part] = rounded(Lanes::fma(numbers[part], Lanes::broadcast(1.0F / 256.0F), quarter));
    lower[part] = Lanes::fma(upper[part], Lanes::broadcast(-256.0F), numbers[part]);
  }
  typename Ops::ByteSums unused;
  Ops::store_rounded(out, upper, unused);
  Ops::store_rounded(out + 64, lower, unused);
}

// A group of inputs in steps of 1 / inverse.
template <class Lanes>
[[gnu::always_inline]] inline void to_steps(const float* inputs, float inverse, Lanes (&steps)[4]) {
#pragma GCC unroll 4
  for (size_t part = 0; part < 4; ++part) {
    steps[part] = Lanes::mul(Lanes::load(inputs + part * kLanes), Lanes::broadcast(inverse));
  }
}

template <class Lanes>
[[gnu::always_inline]] inline Lanes sum_of(const Lanes (&parts)[4]) {
  return Lanes::add(Lanes::add(parts[0], parts[1]), Lanes::add(parts[2], parts[3]));
}

// What sums of products start with, one for each group of a row, and scales behind them.
[[gnu::always_inline]] inline unsigned char* starts_of_row(const EncodeTask& task, size_t row) {
  return task.out + row * task.out_stride + task.rows.num_groups * task.value_bytes;
}
[[gnu::always_inline]] inline float* scales_of_row(const EncodeTask& task, size_t row) {
  return reinterpret_cast<float*>(starts_of_row(task, row)) + task.rows.num_groups;
}

// Rounds `rotated` to 8 bits, group i in steps of 1 / inverses[i], and writes what words of
// products begin with.
template <class Lanes, class Ops>
void round_groups_for_words(
    const EncodeTask& task, const GroupsOfRow& groups, const float* rotated, const float* inverses
) {
  unsigned char* values = task.out + groups.row * task.out_stride + groups.begin * task.value_bytes;
  auto* const starts = reinterpret_cast<int32_t*>(starts_of_row(task, groups.row)) + groups.begin;
  for (size_t group = 0; group < groups.num_groups; ++group, values += task.value_bytes) {
    Lanes steps[4];
    to_steps(rotated + group * 64, inverses[group], steps);
    typename Ops::ByteSums unused;
    Ops::store_rounded(values, steps, unused);
    Ops::store_word_starts(values + 64, values, task.weight_zero);
    starts[group] = kSumStart;
  }
}

// The same, and what the sums of products start with where words do not.
template <class Lanes, class Ops>
void round_groups(
    const EncodeTask& task, const GroupsOfRow& groups, const float* rotated, const float* inverses
) {
  if constexpr (kHasWordStarts<Ops>) {
    if (task.has_word_starts) {
      return round_groups_for_words<Lanes, Ops>(task, groups, rotated, inverses);
    }
  }
  unsigned char* values = task.out + groups.row * task.out_stride + groups.begin * task.value_bytes;
  LanesOfGroups<Lanes> sums;
  for (size_t group = 0; group < groups.num_groups; ++group, values += task.value_bytes) {
    Lanes steps[4];
    to_steps(rotated + group * 64, inverses[group], steps);
    if (task.in_words) {
#pragma GCC unroll 4
      for (Lanes& part : steps) part = rounded(part);
      store_words<Lanes, Ops>(values, steps);
      sums.put(group, sum_of(steps));
    } else {
      typename Ops::ByteSums sum;
      Ops::store_rounded(values, steps, sum);
      sums.put(group, sum.lanes());
    }
  }
  // kSumStart - zero * sum, in the bits of a float: exact below 2^22.
  const Lanes starts = Lanes::fma(
      sums.combined(groups.num_groups, [](Lanes a, Lanes b) { return Lanes::add(a, b); }),
      Lanes::broadcast(static_cast<float>(-task.weight_zero)),
      Lanes::broadcast(kRoundingShift)
  );
  float* const first = reinterpret_cast<float*>(starts_of_row(task, groups.row));
  Lanes::store_first(first + groups.begin, starts, groups.num_groups);
}

// Of what is no number any: its scale is none.
[[gnu::always_inline]] inline int32_t start_of(float sum) {
  return sum == sum ? -(static_cast<int32_t>(sum) * (1 << kStartBits)) : 0;
}

// The same to 16 bits, in steps of 1 / inverse.
template <class Lanes, class Ops>
void round_groups_to_numbers(
    const EncodeTask& task, const GroupsOfRow& groups, const float* rotated, float inverse
) {
  unsigned char* values = task.out + groups.row * task.out_stride + groups.begin * task.value_bytes;
  LanesOfGroups<Lanes> sums_of_lanes;
  for (size_t group = 0; group < groups.num_groups; ++group, values += task.value_bytes) {
    Lanes numbers[4];
    to_steps(rotated + group * 64, inverse, numbers);
#pragma GCC unroll 4
    for (Lanes& part : numbers) part = rounded(part);
    store_numbers<Lanes, Ops>(task.in_words, values, numbers);
    sums_of_lanes.put(group, sum_of(numbers));
  }
  float sums[kLanes];
  const auto add = [](Lanes a, Lanes b) { return Lanes::add(a, b); };
  Lanes::store(sums, sums_of_lanes.combined(groups.num_groups, add));
  auto* const starts = reinterpret_cast<int32_t*>(starts_of_row(task, groups.row)) + groups.begin;
  for (size_t group = 0; group < groups.num_groups; ++group) starts[group] = start_of(sums[group]);
}

}  // namespace
}  // namespace millrace
