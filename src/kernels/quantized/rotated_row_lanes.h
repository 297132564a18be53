// Rows that are rotated before they are rounded, on sixteen lanes. See lanes.h for the rules of
// this file. `Ops` is what Lanes lack, as in rotate_rows_lanes.h, and
//
//   larger_magnitudes(a, b)    of each lane; what is no number is the largest
//   largest_magnitude(a)       of all lanes
#pragma once

#include "kernels/lanes.h"
#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/quantized/rotate_rows_lanes.h"

namespace millrace {
namespace {

// Groups of a row, sixteen or what is left at its end; blocks do not go beyond them.
struct GroupsOfRow {
  size_t row;
  size_t begin;
  size_t num_groups;
};
constexpr size_t kSixteenGroups = kLanes * 64;

[[gnu::always_inline]] inline GroupsOfRow sixteen_groups(
    const RowsToRotate& rows, size_t row, size_t begin
) {
  const size_t rest = rows.num_groups - begin;
  return {row, begin, rest < kLanes ? rest : kLanes};
}

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

// A row that is read twice: once for its largest number, then to be rounded. It is rotated once, up
// to 20,480 inputs (those of `down` in models of 8 billion weights are 18,944 at most); what lies
// behind them is rotated each time.
template <class Lanes, class Ops>
class RotatedRow {
 public:
  RotatedRow(const RowsToRotate& rows, size_t row, size_t next_row)
      : rows_(rows), next_row_(next_row) {
    Lanes peaks = Lanes::broadcast(kLeastPeak);
    for (size_t begin = 0; begin < rows.num_groups; begin += kLanes) {
      const GroupsOfRow groups = sixteen_groups(rows, row, begin);
      float* const to = is_kept(groups) ? kept_ + begin * 64 : passing_;
      rotate_groups<Lanes, Ops>(rows, groups, next_row, to, [&](size_t, const Lanes(&parts)[4]) {
#pragma GCC unroll 4
        for (size_t part = 0; part < 4; ++part) {
          peaks = Ops::larger_magnitudes(peaks, parts[part]);
        }
      });
    }
    peak_ = Ops::largest_magnitude(peaks);
  }

  // The largest magnitude, at least kLeastPeak; no number if some input is none.
  float peak() const {
    return peak_;
  }

  // [groups.num_groups][64], until the next call.
  const float* values(const GroupsOfRow& groups) {
    if (is_kept(groups)) return kept_ + groups.begin * 64;
    const auto nothing = [](size_t, const Lanes(&)[4]) {};
    rotate_groups<Lanes, Ops>(rows_, groups, next_row_, passing_, nothing);
    return passing_;
  }

 private:
  static constexpr size_t kKeptGroups = 20 * kLanes;

  static bool is_kept(const GroupsOfRow& groups) {
    return groups.begin < kKeptGroups;
  }

  alignas(64) float kept_[kKeptGroups * 64];
  alignas(64) float passing_[kSixteenGroups];
  const RowsToRotate& rows_;
  size_t next_row_;
  float peak_;
};

}  // namespace
}  // namespace millrace
