// Where the bits of codes lie in a group of a panel (quantized_matrix.h): one place for whoever
// writes or reads them one by one. What multiplies them reads registers (group_weights_lanes.h,
// code_weights_lanes.h), and calls none of these functions (lanes.h).
//
// Codes of 8 bits are bytes. Of fewer the lower four bits of two times four inputs share bytes, and
// behind all of those the upper ones of eight or four times four inputs do.
#pragma once

#include <cstddef>

namespace millrace {

constexpr size_t kLowerBitsBytes = 512;  // of a group's 64 inputs x 16 rows

// The byte of a group in which `fours` times four inputs of a row have bits, and from which bit on.
struct BitPlace {
  size_t byte;
  size_t shift;
};
constexpr BitPlace bit_place(size_t row, size_t input, size_t fours) {
  const size_t four = input / 4;
  return {(four / fours * 16 + row) * 4 + input % 4, four % fours * (8 / fours)};
}
// Of the fifth bits, or of the fifth and the sixth ones. REQUIRES: 5 or 6 bits.
constexpr BitPlace upper_bits_place(size_t row, size_t input, int bits) {
  const BitPlace place = bit_place(row, input, bits == 5 ? 8 : 4);
  return {kLowerBitsBytes + place.byte, place.shift};
}

// The code of an input of a row. `bits`: 4, 5, 6 or 8.
constexpr int code_bits_at(const unsigned char* group, size_t row, size_t input, int bits) {
  if (bits == 8) return group[bit_place(row, input, 1).byte];
  const BitPlace lower = bit_place(row, input, 2);
  const int four_bits = group[lower.byte] >> lower.shift & 15;
  if (bits == 4) return four_bits;
  const BitPlace upper = upper_bits_place(row, input, bits);
  return four_bits | (group[upper.byte] >> upper.shift & ((1 << (bits - 4)) - 1)) << 4;
}

// Puts it there instead of what was there.
constexpr void put_code_bits(
    unsigned char* group, size_t row, size_t input, int bits, unsigned code
) {
  const auto put = [group](BitPlace place, unsigned mask, unsigned value) {
    const unsigned others = group[place.byte] & ~(mask << place.shift);
    group[place.byte] = static_cast<unsigned char>(others | value << place.shift);
  };
  if (bits == 8) return put(bit_place(row, input, 1), 255, code);
  put(bit_place(row, input, 2), 15, code & 15);
  if (bits > 4) put(upper_bits_place(row, input, bits), (1U << (bits - 4)) - 1, code >> 4);
}

}  // namespace millrace
