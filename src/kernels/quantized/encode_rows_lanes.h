// encode_rows on sixteen lanes. See lanes.h for the rules of this file, round_inputs_lanes.h for
// what `Ops` are.
#pragma once

#include "kernels/lanes.h"
#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/quantized/rotated_row_lanes.h"
#include "kernels/quantized/round_inputs_lanes.h"

namespace millrace {
namespace {

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
    round_groups<Lanes, Ops>(task, groups, rotated, inverses);
    const Lanes scales = Lanes::mul(peak, Lanes::broadcast(1.0F / 127.0F));
    Lanes::store_first(scales_of_row(task, row) + begin, scales, groups.num_groups);
  }
}

// A row whose groups have numbers of 16 bits and scales of their own.
template <class Lanes, class Ops>
void encode_coded_row(const EncodeTask& task, size_t row, size_t next_row) {
  alignas(64) float inputs[kSixteenGroups];
  unsigned char* values = task.out + row * task.out_stride;
  auto* coded = reinterpret_cast<CodedInputs*>(values + task.rows.num_groups * task.value_bytes);
  for (size_t begin = 0; begin < task.rows.num_groups; begin += kLanes) {
    const GroupsOfRow groups = sixteen_groups(task.rows, row, begin);
    const Lanes peak = peaks_of_groups<Lanes, Ops>(task, groups, next_row, inputs);
    float inverses[kLanes];
    float scales[kLanes];
    Lanes::store(inverses, Lanes::div(Lanes::broadcast(kNumberPeak), peak));
    Lanes::store(scales, Lanes::mul(peak, Lanes::broadcast(1.0F / kNumberPeak)));
    LanesOfGroups<Lanes> quarters[4];
    for (size_t group = 0; group < groups.num_groups; ++group, values += task.value_bytes) {
      Lanes numbers[4];
      to_steps(inputs + group * 64, inverses[group], numbers);
#pragma GCC unroll 4
      for (size_t part = 0; part < 4; ++part) {
        numbers[part] = rounded(numbers[part]);
        quarters[part].put(group, numbers[part]);
      }
      store_numbers<Lanes, Ops>(task.in_words, values, numbers);
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
template <class Lanes, class Ops>
void encode_whole_row(const EncodeTask& task, size_t row, size_t next_row) {
  RotatedRow<Lanes, Ops> rotated(task.rows, row, next_row);
  const bool are_numbers = task.rounding == InputRounding::kTwoTerms;  // of 16 bits
  const float most = are_numbers ? kNumberPeak : 127.0F;
  const float inverse = most / rotated.peak();
  float inverses[kLanes];
  Lanes::store(inverses, Lanes::broadcast(inverse));
  for (size_t begin = 0; begin < task.rows.num_groups; begin += kLanes) {
    const GroupsOfRow groups = sixteen_groups(task.rows, row, begin);
    const float* const values = rotated.values(groups);
    if (are_numbers) {
      round_groups_to_numbers<Lanes, Ops>(task, groups, values, inverse);
    } else {
      round_groups<Lanes, Ops>(task, groups, values, inverses);
    }
  }
  *scales_of_row(task, row) = rotated.peak() * (1.0F / most);
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
      case InputRounding::kTwoTerms:
        encode_whole_row<Lanes, Ops>(task, row, next_row);
        break;
    }
  }
}

}  // namespace
}  // namespace millrace
