// encode_rows on sixteen lanes. See lanes.h for the rules of this file. `Ops` is what Lanes lack,
// as in rotate_rows_lanes.h, and
//
//   absolute(a)
//   larger_magnitudes(a, b)         of each lane; what is no number is the largest
//   largest_magnitude(a)            of all lanes
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

// Groups of a row, sixteen or what is left at its end; blocks do not go beyond them.
struct GroupsOfRow {
  size_t row;
  size_t begin;
  size_t num_groups;
};
constexpr size_t kSixteenGroups = kLanes * 64;

// Rotates them into `rotated`, [kSixteenGroups]: function(group, parts) for each of them. The same
// inputs of `next_row` are asked for meanwhile: what other cores wrote comes from far.
template <class Lanes, class Ops, class Function>
[[gnu::always_inline]] inline void rotate_groups(
    const RowsToRotate& rows,
    const GroupsOfRow& groups,
    size_t next_row,
    float* rotated,
    const Function& function
) {
  for (size_t i = 0; i < groups.num_groups * 64; i += rows.rotation) {
    const size_t begin = groups.begin * 64 + i;
    const float* const next = rows.x + next_row * rows.stride + begin;
    for (size_t line = 0; line < rows.rotation; line += kLanes) __builtin_prefetch(next + line);
    for_rotated_groups<Lanes, Ops>(
        rows,
        groups.row,
        begin,
        [&](size_t input, const Lanes(&parts)[4]) {
          const size_t place = i + input;
#pragma GCC unroll 4
          for (size_t part = 0; part < 4; ++part) {
            Lanes::store(rotated + place + part * kLanes, parts[part]);
          }
          function(place / 64, parts);
        }
    );
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

[[gnu::always_inline]] inline GroupsOfRow sixteen_groups(
    const RowsToRotate& rows, size_t row, size_t begin
) {
  const size_t rest = rows.num_groups - begin;
  return {row, begin, rest < kLanes ? rest : kLanes};
}

[[gnu::always_inline]] inline float* scales_of_row(const EncodeTask& task, size_t row) {
  const size_t num_parts = task.rows.num_groups * task.num_terms;
  return reinterpret_cast<float*>(
      task.out + row * task.out_stride + num_parts * (64 + sizeof(float))
  );
}

// A row whose groups have scales of their own.
template <class Lanes, class Ops>
void encode_row_by_groups(const EncodeTask& task, size_t row, size_t next_row) {
  alignas(64) float rotated[kSixteenGroups];
  for (size_t begin = 0; begin < task.rows.num_groups; begin += kLanes) {
    const GroupsOfRow groups = sixteen_groups(task.rows, row, begin);
    LanesOfGroups<Lanes> peaks;
    const auto put_peak = [&](size_t group, const Lanes(&parts)[4]) {
      const Lanes first = Lanes::max(Ops::absolute(parts[0]), Ops::absolute(parts[1]));
      const Lanes second = Lanes::max(Ops::absolute(parts[2]), Ops::absolute(parts[3]));
      peaks.put(group, Lanes::max(first, second));
    };
    rotate_groups<Lanes, Ops>(task.rows, groups, next_row, rotated, put_peak);
    const auto larger = [](Lanes a, Lanes b) { return Lanes::max(a, b); };
    // In this order what is no number stays.
    const Lanes peak =
        Lanes::max(Lanes::broadcast(kLeastPeak), peaks.combined(groups.num_groups, larger));
    float inverses[kLanes];
    Lanes::store(inverses, Lanes::div(Lanes::broadcast(127.0F), peak));
    round_groups<Lanes, Ops, 1>(task, groups, rotated, inverses);
    Lanes::store_first(
        scales_of_row(task, row) + begin,
        Lanes::mul(peak, Lanes::broadcast(1.0F / 127.0F)),
        groups.num_groups
    );
  }
}

// Rotated inputs that are kept between the two passes over a row with one scale (18,944 of the
// widest models of 7 billion weights among them); further ones are made twice.
constexpr size_t kKeptRowInputs = 20 * kSixteenGroups;

template <class Lanes, class Ops, size_t kTerms>
void encode_whole_row(const EncodeTask& task, size_t row, size_t next_row) {
  alignas(64) float kept[kKeptRowInputs];
  alignas(64) float passing[kSixteenGroups];
  Lanes peaks = Lanes::broadcast(kLeastPeak);
  const auto rotated = [&](const GroupsOfRow& groups) {
    float* const out = groups.begin * 64 < kKeptRowInputs ? kept + groups.begin * 64 : passing;
    rotate_groups<Lanes, Ops>(
        task.rows,
        groups,
        next_row,
        out,
        [&](size_t, const Lanes(&parts)[4]) {
#pragma GCC unroll 4
          for (size_t part = 0; part < 4; ++part) {
            peaks = Ops::larger_magnitudes(peaks, parts[part]);
          }
        }
    );
    return out;
  };
  for (size_t begin = 0; begin < task.rows.num_groups; begin += kLanes) {
    rotated(sixteen_groups(task.rows, row, begin));
  }
  const float peak = Ops::largest_magnitude(peaks);
  float inverses[kLanes];
  Lanes::store(inverses, Lanes::broadcast(127.0F / peak));
  for (size_t begin = 0; begin < task.rows.num_groups; begin += kLanes) {
    const GroupsOfRow groups = sixteen_groups(task.rows, row, begin);
    const float* const values = begin * 64 < kKeptRowInputs ? kept + begin * 64 : rotated(groups);
    round_groups<Lanes, Ops, kTerms>(task, groups, values, inverses);
  }
  *scales_of_row(task, row) = peak * (1.0F / 127.0F);
}

template <class Lanes, class Ops>
void encode_lanes(const EncodeTask& task, size_t row_begin, size_t row_end) {
  for (size_t row = row_begin; row < row_end; ++row) {
    const size_t next_row = row + 1 < row_end ? row + 1 : row;
    if (!task.has_row_scales) {
      encode_row_by_groups<Lanes, Ops>(task, row, next_row);
    } else if (task.num_terms == 1) {
      encode_whole_row<Lanes, Ops, 1>(task, row, next_row);
    } else {
      encode_whole_row<Lanes, Ops, 2>(task, row, next_row);
    }
  }
}

}  // namespace
}  // namespace millrace
