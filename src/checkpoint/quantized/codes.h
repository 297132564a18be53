// The integers and 8-bit floats of which quantized weights and zero points consist, as they lie in
// files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

namespace millrace {

// A matrix of unsigned integers of 2, 3, 4 or 8 bits in little-endian words of 32, without
// alignment: a row, or a column, is a string of bits, the lowest of each word first.
struct BitFields {
  enum class Along { kRow, kColumn };  // what one string of bits is

  std::span<const std::byte> words;
  int bits = 4;
  Along along = Along::kRow;
  size_t word_stride = 1;     // words from one to the next of the same string
  size_t string_stride = 1;   // words from a string to the next
  bool is_awq_order = false;  // AutoAWQ's: a word of 8 elements holds 0, 2, 4, 6, 1, 3, 5, 7
  // One is added to each element, as GPTQ's first version asks it of zero points: to words as a
  // whole, since that undoes how they were written (gptqmodel's convert_gptq_v2_to_v1_format, whose
  // subtraction borrows from the element above where one was 0); of 3 bits each for itself.
  bool is_one_less = false;

  // How many words a string of `length` elements takes.
  static size_t words_of(size_t length, int bits) {
    return (length * static_cast<size_t>(bits) + 31) / 32;
  }

  size_t bit_of(size_t element) const;  // where an element begins in its string
  uint32_t at(size_t row, size_t column) const;
};

// A matrix of bytes, each of which stands for a value.
struct ByteCodes {
  std::span<const std::byte> bytes;  // [rows, columns]
  size_t num_columns = 0;
  const std::array<float, 256>* values = nullptr;
};

// What bytes stand for: int8, and float8_e4m3fn (bias 7, no infinity, NaN at 0x7F and 0xFF).
extern const std::array<float, 256> kInt8Values;
extern const std::array<float, 256> kFloat8Values;

using Codes = std::variant<BitFields, ByteCodes>;

float code_at(const Codes& codes, size_t row, size_t column);

// Rows [row_begin, row_begin + out.size() / num_columns) as floats. `out`: [rows, num_columns].
void read_code_rows(const Codes& codes, size_t row_begin, size_t num_columns, std::span<float> out);

}  // namespace millrace
