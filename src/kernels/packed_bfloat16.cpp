#include "kernels/packed_bfloat16.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "base/check.h"

namespace millrace {
namespace {

constexpr size_t kRows = 16;
constexpr size_t kTableSize = 16;
constexpr uint16_t kExponentBits = 0x7F80;
constexpr int kExponentShift = 7;
constexpr uint8_t kNotInTable = 0xFF;

struct ExponentTable {
  std::array<uint16_t, kTableSize> exponents = {};  // in place; the first is 0
  std::array<uint8_t, 256> codes;                   // of each exponent, or kNotInTable
};

size_t exponent_of(BFloat16 weight) {
  return (weight.bits & kExponentBits) >> kExponentShift;
}

ExponentTable choose_exponents(std::span<const BFloat16> weights) {
  std::array<size_t, 256> counts = {};
  for (const BFloat16 weight : weights) ++counts[exponent_of(weight)];
  counts[0] = 0;  // always there
  std::array<uint8_t, 256> order;
  std::iota(order.begin(), order.end(), uint8_t{0});
  std::partial_sort(
      order.begin(),
      order.begin() + kTableSize,
      order.end(),
      [&](uint8_t a, uint8_t b) { return counts[a] != counts[b] ? counts[a] > counts[b] : a > b; }
  );
  ExponentTable table;
  table.codes.fill(kNotInTable);
  table.codes[0] = 0;
  for (size_t i = 1; i < kTableSize; ++i) {
    const uint8_t exponent = order[i - 1];
    if (counts[exponent] == 0) break;
    table.exponents[i] = static_cast<uint16_t>(exponent << kExponentShift);
    table.codes[exponent] = static_cast<uint8_t>(i);
  }
  return table;
}

struct Place {
  size_t code;  // byte offset of the uint16 with its number
  int code_shift;
  size_t rest;  // byte offset of its sign and mantissa
};

Place place_of(size_t row, size_t column) {
  const size_t block = kPackedTableBytes + column / kPackedBlockColumns * kPackedBlockBytes;
  const size_t pair = column % kPackedBlockColumns / 2;
  const size_t lane = row * 2 + column % 2;
  return {
      .code = block + lane * 2,
      .code_shift = static_cast<int>(4 * pair),
      .rest = block + kPackedCodeBytes + pair * kPackedPairBytes + lane,
  };
}

uint16_t read_u16(const uint8_t* p) {
  uint16_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
}

void put(BFloat16 weight, uint8_t code, const Place& place, std::span<uint8_t> panel) {
  panel[place.rest] = static_cast<uint8_t>((weight.bits >> 8 & 0x80) | (weight.bits & 0x7F));
  uint16_t codes = read_u16(&panel[place.code]);
  codes = static_cast<uint16_t>(codes | code << place.code_shift);
  std::memcpy(&panel[place.code], &codes, sizeof(codes));
}

}  // namespace

std::vector<WeightException> pack_bfloat16_panel(
    std::span<const float> rows, size_t num_columns, std::span<uint8_t> panel
) {
  CHECK(panel.size() == packed_bfloat16_panel_bytes(num_columns), "a whole panel");
  CHECK(rows.size() % num_columns == 0 && rows.size() <= kRows * num_columns, "at most 16 rows");
  std::vector<BFloat16> weights(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) weights[i] = to_bfloat16(rows[i]);

  const ExponentTable table = choose_exponents(weights);
  std::ranges::fill(panel, uint8_t{0});
  std::memcpy(panel.data(), table.exponents.data(), kPackedTableBytes / 2);
  std::memcpy(&panel[kPackedTableBytes / 2], table.exponents.data(), kPackedTableBytes / 2);
  std::vector<WeightException> exceptions;
  for (size_t column = 0; column < num_columns; ++column) {
    for (size_t row = 0; row * num_columns < rows.size(); ++row) {
      const BFloat16 weight = weights[row * num_columns + column];
      const uint8_t code = table.codes[exponent_of(weight)];
      if (code != kNotInTable) {
        put(weight, code, place_of(row, column), panel);
      } else {
        exceptions.push_back(
            {static_cast<uint32_t>(column), static_cast<uint16_t>(row), weight.bits}
        );
      }
    }
  }
  return exceptions;
}

BFloat16 packed_bfloat16_weight(const uint8_t* panel, size_t row, size_t column) {
  const Place place = place_of(row, column);
  const size_t code = read_u16(panel + place.code) >> place.code_shift & 0xF;
  const uint16_t exponent = read_u16(panel + 2 * code);
  const unsigned rest = panel[place.rest];
  return {static_cast<uint16_t>((rest & 0x80) << 8 | exponent | (rest & 0x7F))};
}

}  // namespace millrace
