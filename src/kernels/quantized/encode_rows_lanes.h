// encode_rows on sixteen lanes. See lanes.h for the rules of this file. `Ops` is what Lanes lack,
// as in rotated_row_lanes.h, and
//
//   store_rounded(p, parts, sums)   four Lanes to the nearest bytes, which are added to `sums`, of
//                       type ByteSums, whose lanes() together are their total. REQUIRES: magnitudes
//                       that round to 127 at most; what is no number becomes any byte
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

// The nearest integers.
template <class Lanes>
[[gnu::always_inline]] inline Lanes rounded(Lanes a) {
  const Lanes shift = Lanes::broadcast(kRoundingShift);
  return Lanes::sub(Lanes::add(a, shift), shift);
}

// What the nearest integers leave over, in steps of a second term.
template <class Lanes>
[[gnu::always_inline]] inline void to_steps_of_second_term(Lanes (&steps)[4]) {
#pragma GCC unroll 4
  for (size_t part = 0; part < 4; ++part) {
    const Lanes rest = Lanes::sub(steps[part], rounded(steps[part]));
    steps[part] = Lanes::mul(rest, Lanes::broadcast(kSecondTermSteps));
  }
}

// Rounds `rotated`, group i in steps of 1 / inverses[i], and writes what the sums of products start
// with.
template <class Lanes, class Ops, size_t kTerms>
void round_groups(
    const EncodeTask& task, const GroupsOfRow& groups, const float* rotated, const float* inverses
) {
  unsigned char* const values = task.out + groups.row * task.out_stride;
  LanesOfGroups<Lanes> sums[kTerms];
  for (size_t group = 0; group < groups.num_groups; ++group) {
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
      Ops::store_rounded(values + ((groups.begin + group) * kTerms + term) * 64, steps, sum);
      sums[term].put(group, sum.lanes());
    }
  }
  Lanes starts[kTerms];
#pragma GCC unroll 2
  for (size_t term = 0; term < kTerms; ++term) {
    // kSumStart - 128 * sum, in the bits of a float: exact below 2^22.
    starts[term] = Lanes::fma(
        sums[term].combined(groups.num_groups, [](Lanes a, Lanes b) { return Lanes::add(a, b); }),
        Lanes::broadcast(-128.0F),
        Lanes::broadcast(kRoundingShift)
    );
  }
  float* const first = reinterpret_cast<float*>(values + task.rows.num_groups * kTerms * 64);
  store_terms(first + groups.begin * kTerms, starts, groups.num_groups);
}

template <size_t kTerms>
[[gnu::always_inline]] inline float* scales_of_row(const EncodeTask& task, size_t row) {
  const size_t num_parts = task.rows.num_groups * kTerms;
  return reinterpret_cast<float*>(
      task.out + row * task.out_stride + num_parts * (64 + sizeof(float))
  );
}

// The largest magnitude of each of sixteen groups, which are rotated into `rotated` meanwhile.
template <class Lanes, class Ops>
[[gnu::always_inline]] inline Lanes peaks_of_groups(
    const EncodeTask& task, const GroupsOfRow& groups, size_t next_row, float* rotated
) {
  LanesOfGroups<Lanes> peaks;
  const auto put_peak = [&](size_t group, const Lanes(&parts)[4]) {
    const Lanes first = Ops::larger_magnitudes(parts[0], parts[1]);
    const Lanes second = Ops::larger_magnitudes(parts[2], parts[3]);
    peaks.put(group, Ops::larger_magnitudes(first, second));
  };
  rotate_groups<Lanes, Ops>(task.rows, groups, next_row, rotated, put_peak);
  const auto larger = [](Lanes a, Lanes b) { return Ops::larger_magnitudes(a, b); };
  // In this order what is no number stays.
  return Lanes::max(Lanes::broadcast(kLeastPeak), peaks.combined(groups.num_groups, larger));
}

// A row whose groups have scales of their own.
template <class Lanes, class Ops>
void encode_row_by_groups(const EncodeTask& task, size_t row, size_t next_row) {
  alignas(64) float rotated[kSixteenGroups];
  for (size_t begin = 0; begin < task.rows.num_groups; begin += kLanes) {
    const GroupsOfRow groups = sixteen_groups(task.rows, row, begin);
    const Lanes peak = peaks_of_groups<Lanes, Ops>(task, groups, next_row, rotated);
    float inverses[kLanes];
    Lanes::store(inverses, Lanes::div(Lanes::broadcast(127.0F), peak));
    round_groups<Lanes, Ops, 1>(task, groups, rotated, inverses);
    const Lanes scales = Lanes::mul(peak, Lanes::broadcast(1.0F / 127.0F));
    Lanes::store_first(scales_of_row<1>(task, row) + begin, scales, groups.num_groups);
  }
}

// Of what is no number any: its group's scale is none.
[[gnu::always_inline]] inline int32_t start_of(float sum) {
  return sum == sum ? -(static_cast<int32_t>(sum) * (1 << kStartBits)) : 0;
}

// A row in two bytes. A lower byte is at least -128 and at most 127: halves are rounded upwards.
template <class Lanes, class Ops>
void encode_coded_row(const EncodeTask& task, size_t row, size_t next_row) {
  alignas(64) float inputs[kSixteenGroups];
  unsigned char* bytes = task.out + row * task.out_stride;
  auto* coded = reinterpret_cast<CodedInputs*>(bytes + task.rows.num_groups * 128);
  for (size_t begin = 0; begin < task.rows.num_groups; begin += kLanes) {
    const GroupsOfRow groups = sixteen_groups(task.rows, row, begin);
    const Lanes peak = peaks_of_groups<Lanes, Ops>(task, groups, next_row, inputs);
    float inverses[kLanes];
    float scales[kLanes];
    Lanes::store(inverses, Lanes::div(Lanes::broadcast(kCodedPeak), peak));
    Lanes::store(scales, Lanes::mul(peak, Lanes::broadcast(1.0F / kCodedPeak)));
    LanesOfGroups<Lanes> quarters[4];
    for (size_t group = 0; group < groups.num_groups; ++group, bytes += 128) {
      Lanes upper[4];
      Lanes lower[4];
#pragma GCC unroll 4
      for (size_t part = 0; part < 4; ++part) {
        const Lanes input = Lanes::load(inputs + group * 64 + part * kLanes);
        lower[part] = rounded(Lanes::mul(input, Lanes::broadcast(inverses[group])));
        const Lanes quarter = Lanes::broadcast(0.25F / 256.0F);
        upper[part] = rounded(Lanes::fma(lower[part], Lanes::broadcast(1.0F / 256.0F), quarter));
      }
#pragma GCC unroll 4
      for (size_t part = 0; part < 4; ++part) {
        quarters[part].put(group, lower[part]);
        lower[part] = Lanes::fma(upper[part], Lanes::broadcast(-256.0F), lower[part]);
      }
      typename Ops::ByteSums unused;
      Ops::store_rounded(bytes, upper, unused);
      Ops::store_rounded(bytes + 64, lower, unused);
    }
    float sums[4][kLanes];
    const auto add = [](Lanes a, Lanes b) { return Lanes::add(a, b); };
    for (size_t part = 0; part < 4; ++part) {
      Lanes::store(sums[part], quarters[part].combined(groups.num_groups, add));
    }
    for (size_t group = 0; group < groups.num_groups; ++group, ++coded) {
      for (size_t half = 0; half < 2; ++half) {
        const float sum = sums[2 * half][group] + sums[2 * half + 1][group];
        coded->half_sums[half] = sum;
      }
      for (size_t part = 0; part < 4; ++part) {
        coded->starts[part] = start_of(sums[part][group]);
      }
      coded->sum = coded->half_sums[0] + coded->half_sums[1];
      coded->scale = scales[group] + 0.0F * coded->sum;  // none where an input is infinite
    }
  }
}

// A row whose groups share one.
template <class Lanes, class Ops, size_t kTerms>
void encode_whole_row(const EncodeTask& task, size_t row, size_t next_row) {
  RotatedRow<Lanes, Ops> rotated(task.rows, row, next_row);
  float inverses[kLanes];
  Lanes::store(inverses, Lanes::broadcast(127.0F / rotated.peak()));
  for (size_t begin = 0; begin < task.rows.num_groups; begin += kLanes) {
    const GroupsOfRow groups = sixteen_groups(task.rows, row, begin);
    round_groups<Lanes, Ops, kTerms>(task, groups, rotated.values(groups), inverses);
  }
  *scales_of_row<kTerms>(task, row) = rotated.peak() * (1.0F / 127.0F);
}

template <class Lanes, class Ops>
void encode_lanes(const EncodeTask& task, size_t row_begin, size_t row_end) {
  for (size_t row = row_begin; row < row_end; ++row) {
    const size_t next_row = row + 1 < row_end ? row + 1 : row;
    switch (task.rounding) {
      case InputRounding::kGroups:
        encode_row_by_groups<Lanes, Ops>(task, row, next_row);
        break;
      case InputRounding::kUnrotated:
        encode_coded_row<Lanes, Ops>(task, row, next_row);
        break;
      case InputRounding::kRow:
        encode_whole_row<Lanes, Ops, 1>(task, row, next_row);
        break;
      case InputRounding::kTwoTerms:
        encode_whole_row<Lanes, Ops, 2>(task, row, next_row);
        break;
    }
  }
}

}  // namespace
}  // namespace millrace
