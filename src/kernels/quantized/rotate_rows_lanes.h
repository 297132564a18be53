// Rows rotated by the block-diagonal Walsh-Hadamard transform, on sixteen lanes. See lanes.h for
// the rules of this file. `Ops` is what Lanes lack:
//
//   butterfly<h>(a)     lane i of the result is a[i] + a[i ^ h] where i & h is 0, else
//                       a[i ^ h] - a[i]; h is 8, 4, 2 or 1
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

// The steps before the last seven: partners `step` apart, from size / 2 down to 128. The first
// reads x, the others read the block.
template <class Lanes>
void rotate_far(const float* x, float* block, size_t size) {
  for (size_t step = size / 2; step >= 128; step /= 2, x = block) {
    for (size_t begin = 0; begin < size; begin += 2 * step) {
      for (size_t i = begin; i < begin + step; i += kLanes) {
        Lanes a = Lanes::load(x + i);
        Lanes b = Lanes::load(x + i + step);
        add_and_subtract(a, b);
        Lanes::store(block + i, a);
        Lanes::store(block + i + step, b);
      }
    }
  }
}

// The last seven steps, or six of one group alone: function(i, parts) for each group of `size`
// inputs at x, which begins at input i.
template <class Lanes, class Ops, class Function>
[[gnu::always_inline]] inline void rotate_near(
    const float* x, size_t size, const Function& function
) {
  if (size == 64) {
    Lanes parts[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) parts[i] = Lanes::load(x + i * kLanes);
    rotate_sixty_four<Lanes, Ops>(parts);
    function(0, parts);
    return;
  }
  for (size_t begin = 0; begin < size; begin += 128) {
    Lanes first[4];
    Lanes second[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) {
      first[i] = Lanes::load(x + begin + i * kLanes);
      second[i] = Lanes::load(x + begin + 64 + i * kLanes);
      add_and_subtract(first[i], second[i]);
    }
    rotate_sixty_four<Lanes, Ops>(first);
    function(begin, first);
    rotate_sixty_four<Lanes, Ops>(second);
    function(begin + 64, second);
  }
}

template <class Lanes, class Ops>
void rotate_lanes(float* block, size_t size) {
  rotate_far<Lanes>(block, block, size);
  rotate_near<Lanes, Ops>(block, size, [&](size_t begin, const Lanes(&parts)[4]) {
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) Lanes::store(block + begin + i * kLanes, parts[i]);
  });
}

// Inputs [begin, begin + rotation) of row `row`, zeros past its end: where they are, or in `copy`.
template <class Lanes>
const float* block_of(const RowsToRotate& rows, size_t row, size_t begin, float* copy) {
  const float* x = rows.x + row * rows.stride + begin;
  if (begin + rows.rotation <= rows.num_inputs) return x;
  for (size_t i = 0; i < rows.rotation; i += kLanes) {
    Lanes values = Lanes::zero();
    if (begin + i + kLanes <= rows.num_inputs) {
      values = Lanes::load(x + i);
    } else if (begin + i < rows.num_inputs) {
      values = Lanes::load_first(x + i, rows.num_inputs - begin - i);
    }
    Lanes::store(copy + i, values);
  }
  return copy;
}

// Rotates a block of a row, if it is to be: function(i, parts) for each group of it, which begins
// at its input i.
template <class Lanes, class Ops, class Function>
[[gnu::always_inline]] inline void for_rotated_groups(
    const RowsToRotate& rows, size_t row, size_t begin, const Function& function
) {
  alignas(64) float block[kRotationMax];
  const float* x = block_of<Lanes>(rows, row, begin, block);
  if (!rows.is_rotated) {
    Lanes parts[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) parts[i] = Lanes::load(x + i * kLanes);
    return function(0, parts);
  }
  if (rows.rotation > 128) {
    rotate_far<Lanes>(x, block, rows.rotation);
    x = block;
  }
  rotate_near<Lanes, Ops>(x, rows.rotation, function);
}

}  // namespace
}  // namespace millrace
