// The loops of machine_limits on registers of any width. See lanes.h for the rules of this file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/machine_limits_kernel.h"

namespace millrace {
namespace {

// Lanes one by one rather than by a tree of additions: it runs once, after millions of rounds.
template <class Lane, class Total, class Register, size_t kSums>
[[gnu::always_inline]] inline uint64_t total_of(const Register (&sums)[kSums]) {
  constexpr size_t kRegisterBytes = sizeof(Register);
  constexpr size_t kLaneBytes = sizeof(Lane);
  Total total = 0;
#pragma GCC unroll 16
  for (size_t i = 0; i < kSums; ++i) {
    Lane lanes[kRegisterBytes / kLaneBytes];
    __builtin_memcpy(lanes, &sums[i], sizeof(lanes));
    for (const Lane lane : lanes) total += lane;
  }
  return static_cast<uint64_t>(total);
}

// sum_words. `Words`: Register, load(p) and add(a, b) of 64-bit words.
template <class Words>
uint64_t sum_words_lanes(const void* data, size_t num_bytes) {
  using Register = typename Words::Register;
  const auto* bytes = static_cast<const unsigned char*>(data);
  constexpr size_t kRegisters = 8;
  Register sums[kRegisters] = {};
  for (size_t begin = 0; begin < num_bytes; begin += sizeof(sums)) {
#pragma GCC unroll 8
    for (size_t k = 0; k < kRegisters; ++k) {
      sums[k] = Words::add(sums[k], Words::load(bytes + begin + k * sizeof(Register)));
    }
  }
  return total_of<uint64_t, uint64_t>(sums);
}

// What the lanes of sums hold, and their own sum.
struct FloatLanes {
  using Lane = float;
  using Total = double;
};
struct IntegerLanes {
  using Lane = uint32_t;
  using Total = uint64_t;
};

// `Dot`: one instruction: kSums Registers of one of these lanes; ones(), and step(sum, ones).
template <class Dot>
uint64_t count_dots(size_t num_rounds) {
  const auto ones = Dot::ones();
  typename Dot::Register sums[Dot::kSums] = {};
  for (size_t round = 0; round < num_rounds; ++round) {
#pragma GCC unroll 16
    for (size_t i = 0; i < Dot::kSums; ++i) Dot::step(sums[i], ones);
  }
  return total_of<typename Dot::Lane, typename Dot::Total>(sums);
}

}  // namespace
}  // namespace millrace
