// encode_rows on sixteen lanes. See lanes.h for the rules of this file. `Ops` is what Lanes lack:
//
//   butterfly<h>(a)     lane i of the result is a[i] + a[i ^ h] where i & h is 0, else
//                       a[i ^ h] - a[i]; h is 8, 4, 2 or 1
//   absolute(a)
//   store_low_bytes(p, a)  the lowest byte of each lane's bits
#pragma once

#include "kernels/lanes.h"
#include "kernels/quantized/encode_rows_kernel.h"

namespace millrace {
namespace {

// Within sixteen.
template <class Lanes, class Ops>
[[gnu::always_inline]] inline Lanes rotate_sixteen(Lanes a) {
  a = Ops::template butterfly<8>(a);
  a = Ops::template butterfly<4>(a);
  a = Ops::template butterfly<2>(a);
  return Ops::template butterfly<1>(a);
}

template <class Lanes>
[[gnu::always_inline]] inline void add_and_subtract(Lanes& a, Lanes& b) {
  const Lanes difference = Lanes::sub(a, b);
  a = Lanes::add(a, b);
  b = difference;
}

// The last six steps of the transform, in registers.
template <class Lanes, class Ops>
[[gnu::always_inline]] inline void rotate_sixty_four(Lanes (&parts)[4]) {
  add_and_subtract(parts[0], parts[2]);
  add_and_subtract(parts[1], parts[3]);
  add_and_subtract(parts[0], parts[1]);
  add_and_subtract(parts[2], parts[3]);
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) parts[i] = rotate_sixteen<Lanes, Ops>(parts[i]);
}

// The steps before those: partners `step` apart, from size / 2 down to 64.
template <class Lanes>
void rotate_far(float* block, size_t size) {
  for (size_t step = size / 2; step >= 64; step /= 2) {
    for (size_t begin = 0; begin < size; begin += 2 * step) {
      for (size_t i = begin; i < begin + step; i += kLanes) {
        Lanes a = Lanes::load(block + i);
        Lanes b = Lanes::load(block + i + step);
        add_and_subtract(a, b);
        Lanes::store(block + i, a);
        Lanes::store(block + i + step, b);
      }
    }
  }
}

template <class Lanes, class Ops>
void rotate_lanes(float* block, size_t size) {
  rotate_far<Lanes>(block, size);
  for (size_t begin = 0; begin < size; begin += 64) {
    Lanes parts[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) parts[i] = Lanes::load(block + begin + i * kLanes);
    rotate_sixty_four<Lanes, Ops>(parts);
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) Lanes::store(block + begin + i * kLanes, parts[i]);
  }
}

// Where a group's terms go.
struct EncodedGroup {
  unsigned char* values;  // [num_terms][64]
  float* scales;          // [num_terms]
  int* starts;            // [num_terms]
};

// One term: its bytes and what its sum of products starts with; in `steps` what they leave over, in
// steps of this term. The sum is exact: integers of at most 64 * 127.
template <class Lanes, class Ops>
[[gnu::always_inline]] inline int round_term(Lanes (&steps)[4], unsigned char* values) {
  Lanes sum = Lanes::zero();
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) {
    Lanes value =
        Lanes::min(Lanes::max(steps[i], Lanes::broadcast(-127.0F)), Lanes::broadcast(127.0F));
    const Lanes shifted = Lanes::add(value, Lanes::broadcast(kRoundingShift));
    Ops::store_low_bytes(values + i * kLanes, shifted);
    const Lanes rounded = Lanes::sub(shifted, Lanes::broadcast(kRoundingShift));
    sum = Lanes::add(sum, rounded);
    steps[i] = Lanes::sub(steps[i], rounded);
  }
  return kSumStart - 128 * static_cast<int>(Lanes::sum(sum));
}

// Rotates the last six steps and rounds.
template <class Lanes, class Ops, size_t kTerms>
[[gnu::always_inline]] inline void encode_group(const float* block, const EncodedGroup& out) {
  Lanes parts[4];
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) parts[i] = Lanes::load(block + i * kLanes);
  rotate_sixty_four<Lanes, Ops>(parts);
  Lanes peaks = Lanes::max(Ops::absolute(parts[0]), Ops::absolute(parts[1]));
  peaks = Lanes::max(peaks, Ops::absolute(parts[2]));
  peaks = Lanes::max(peaks, Ops::absolute(parts[3]));
  const float peak = Lanes::max_of(peaks);
  const Lanes inverse = Lanes::broadcast(peak > 0.0F ? 127.0F / peak : 0.0F);
#pragma GCC unroll 4
  for (size_t i = 0; i < 4; ++i) parts[i] = Lanes::mul(parts[i], inverse);
  out.scales[0] = peak * (1.0F / 127.0F);
  out.starts[0] = round_term<Lanes, Ops>(parts, out.values);
  if constexpr (kTerms == 2) {
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) {
      parts[i] = Lanes::mul(parts[i], Lanes::broadcast(kSecondTermSteps));
    }
    out.scales[1] = out.scales[0] * (1.0F / kSecondTermSteps);
    out.starts[1] = round_term<Lanes, Ops>(parts, out.values + 64);
  }
}

// Inputs [begin, begin + rotation) of row `row`, zeros past its end.
template <class Lanes>
void load_block(const RowsToRotate& rows, size_t row, size_t begin, float* block) {
  const float* x = rows.x + row * rows.stride;
  for (size_t i = 0; i < rows.rotation; i += kLanes) {
    const size_t column = begin + i;
    Lanes values = Lanes::zero();
    if (column + kLanes <= rows.num_inputs) {
      values = Lanes::load(x + column);
    } else if (column < rows.num_inputs) {
      values = Lanes::load_first(x + column, rows.num_inputs - column);
    }
    Lanes::store(block + i, values);
  }
}

template <class Lanes, class Ops, size_t kTerms>
void encode_terms(const EncodeTask& task, size_t row_begin, size_t row_end) {
  const RowsToRotate& rows = task.rows;
  const size_t num_columns = rows.num_groups * 64;
  for (size_t row = row_begin; row < row_end; ++row) {
    unsigned char* values = task.out + row * task.out_stride;
    float* scales = reinterpret_cast<float*>(values + num_columns * kTerms);
    int* starts = reinterpret_cast<int*>(scales + rows.num_groups * kTerms);
    for (size_t begin = 0; begin < num_columns; begin += rows.rotation) {
      alignas(64) float block[kRotationMax];
      load_block<Lanes>(rows, row, begin, block);
      rotate_far<Lanes>(block, rows.rotation);
      for (size_t i = 0; i < rows.rotation; i += 64) {
        const size_t part = (begin + i) / 64 * kTerms;
        encode_group<Lanes, Ops, kTerms>(
            block + i, {values + part * 64, scales + part, starts + part}
        );
      }
    }
  }
}

template <class Lanes, class Ops>
void encode_lanes(const EncodeTask& task, size_t row_begin, size_t row_end) {
  if (task.num_terms == 2) {
    encode_terms<Lanes, Ops, 2>(task, row_begin, row_end);
  } else {
    encode_terms<Lanes, Ops, 1>(task, row_begin, row_end);
  }
}

}  // namespace
}  // namespace millrace
