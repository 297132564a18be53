#include "checkpoint/quantized/codes.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "checkpoint/blocks/block_bytes.h"

namespace millrace {
namespace {

constexpr std::array<float, 256> int8_values() {
  std::array<float, 256> values{};
  for (size_t i = 0; i < 256; ++i) values[i] = static_cast<float>(static_cast<int8_t>(i));
  return values;
}

constexpr std::array<float, 256> float8_values() {
  std::array<float, 256> values{};
  for (uint32_t i = 0; i < 128; ++i) {
    const uint32_t exponent = i >> 3U;
    const uint32_t mantissa = i & 7U;
    float value = exponent == 0 ? static_cast<float>(mantissa) * 0x1p-9F
                                : std::bit_cast<float>((exponent + 120) << 23U | mantissa << 20U);
    if (i == 127) value = std::numeric_limits<float>::quiet_NaN();
    values[i] = value;
    values[i + 128] = -value;
  }
  return values;
}

// Where element 8 c + j of a string lies within word c, in elements.
constexpr std::array<size_t, 8> kAwqPlaces = {0, 4, 1, 5, 2, 6, 3, 7};

// Whole words hold whole elements, so that a word is read once: `kBits` divides 32.
template <int kBits>
void read_along_rows(
    const BitFields& fields, size_t row_begin, size_t num_columns, std::span<float> out
) {
  constexpr size_t kPerWord = 32 / kBits;
  const size_t num_rows = out.size() / num_columns;
  // Words outside, rows within: strings of bits that are interleaved word by word (GPTQ's) are then
  // read in the order in which they lie.
  for (size_t begin = 0; begin < num_columns; begin += kPerWord) {
    const size_t count = std::min(kPerWord, num_columns - begin);
    for (size_t r = 0; r < num_rows; ++r) {
      const size_t place =
          (row_begin + r) * fields.string_stride + begin / kPerWord * fields.word_stride;
      uint32_t word = blocks::load_u32(fields.words.data() + 4 * place);
      float* const to = out.data() + r * num_columns + begin;
      for (size_t i = 0; i < count; ++i, word >>= static_cast<unsigned>(kBits) % 32) {
        to[i] = static_cast<float>(word & ((1U << kBits) - 1));
      }
    }
  }
}

// A column after the other: where a row's elements are in theirs is the same in all. Of elements
// that no word divides.
void read_along_columns(
    const BitFields& fields, size_t row_begin, size_t num_columns, std::span<float> out
) {
  constexpr size_t kRowsAtOnce = 16;
  const size_t num_rows = out.size() / num_columns;
  const auto mask = (1U << static_cast<unsigned>(fields.bits)) - 1;
  for (size_t begin = 0; begin < num_rows; begin += kRowsAtOnce) {
    const size_t count = std::min(kRowsAtOnce, num_rows - begin);
    std::array<size_t, kRowsAtOnce> offsets;  // in bytes
    std::array<size_t, kRowsAtOnce> shifts;
    for (size_t r = 0; r < count; ++r) {
      const size_t bit = fields.bit_of(row_begin + begin + r);
      offsets[r] = bit / 32 * fields.word_stride * 4;
      shifts[r] = bit % 32;
    }
    for (size_t c = 0; c < num_columns; ++c) {
      const std::byte* const column = fields.words.data() + c * fields.string_stride * 4;
      for (size_t r = 0; r < count; ++r) {
        const uint32_t word = blocks::load_u32(column + offsets[r]);
        out[(begin + r) * num_columns + c] = static_cast<float>(word >> shifts[r] & mask);
      }
    }
  }
}

void read_fields(
    const BitFields& fields, size_t row_begin, size_t num_columns, std::span<float> out
) {
  const bool is_plain = 32 % fields.bits == 0 && !fields.is_one_less;
  if (is_plain && fields.along == BitFields::Along::kColumn) {
    return read_along_columns(fields, row_begin, num_columns, out);
  }
  if (is_plain && !fields.is_awq_order) {
    if (fields.bits == 2) return read_along_rows<2>(fields, row_begin, num_columns, out);
    if (fields.bits == 4) return read_along_rows<4>(fields, row_begin, num_columns, out);
    return read_along_rows<8>(fields, row_begin, num_columns, out);
  }
  const size_t num_rows = out.size() / num_columns;
  for (size_t c = 0; c < num_columns; ++c) {
    for (size_t r = 0; r < num_rows; ++r) {
      out[r * num_columns + c] = static_cast<float>(fields.at(row_begin + r, c));
    }
  }
}

}  // namespace

constexpr std::array<float, 256> kInt8Values = int8_values();
constexpr std::array<float, 256> kFloat8Values = float8_values();

size_t BitFields::bit_of(size_t element) const {
  const size_t place = is_awq_order ? element / 8 * 8 + kAwqPlaces[element % 8] : element;
  return place * static_cast<size_t>(bits);
}

uint32_t BitFields::at(size_t row, size_t column) const {
  const bool is_row = along == Along::kRow;
  const size_t bit = bit_of(is_row ? column : row);
  const size_t place = (is_row ? row : column) * string_stride + bit / 32 * word_stride;
  const uint32_t mask = (1U << static_cast<unsigned>(bits)) - 1;
  const bool is_split = bit % 32 + static_cast<size_t>(bits) > 32;  // over two words: 3 bits alone
  const bool words_are_whole = 32 % bits == 0;
  uint64_t word = blocks::load_u32(words.data() + 4 * place);
  if (is_split) {
    word |= uint64_t{blocks::load_u32(words.data() + 4 * (place + word_stride))} << 32U;
  }
  if (is_one_less && words_are_whole) word += 0xFFFFFFFFU / mask;
  const auto field = static_cast<uint32_t>(word >> (bit % 32));
  return (is_one_less && !words_are_whole ? field + 1 : field) & mask;
}

float code_at(const Codes& codes, size_t row, size_t column) {
  if (const auto* fields = std::get_if<BitFields>(&codes)) {
    return static_cast<float>(fields->at(row, column));
  }
  const auto& bytes = std::get<ByteCodes>(codes);
  return (*bytes.values)[static_cast<uint8_t>(bytes.bytes[row * bytes.num_columns + column])];
}

void read_code_rows(
    const Codes& codes, size_t row_begin, size_t num_columns, std::span<float> out
) {
  if (const auto* fields = std::get_if<BitFields>(&codes)) {
    return read_fields(*fields, row_begin, num_columns, out);
  }
  const auto& bytes = std::get<ByteCodes>(codes);
  const std::byte* const from = bytes.bytes.data() + row_begin * num_columns;
  for (size_t i = 0; i < out.size(); ++i) out[i] = (*bytes.values)[static_cast<uint8_t>(from[i])];
}

}  // namespace millrace
