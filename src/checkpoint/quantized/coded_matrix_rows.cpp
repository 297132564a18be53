// What the rows of a quantized matrix are: as float32, and as the codes that are stored.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "checkpoint/blocks/block_bytes.h"
#include "checkpoint/dequantize.h"
#include "checkpoint/quantized/coded_matrix.h"

namespace millrace {
namespace {

// Of whole numbers; 0 of all others.
int code_bits(const Codes& codes) {
  if (const auto* const fields = std::get_if<BitFields>(&codes)) return fields->bits;
  return std::get<ByteCodes>(codes).values == &kInt8Values ? 8 : 0;
}

// What makes 0 .. 255 of bytes with a sign, and of their zero points.
float code_offset(const Codes& codes) {
  return std::holds_alternative<ByteCodes>(codes) ? 128.0F : 0.0F;
}

// How many neighbours share a scale: 64, if that many do, or 32; 0: fewer, or others than those.
size_t inputs_of_scale(const CodedMatrix& matrix) {
  if (!matrix.group_of_input.empty()) return 0;
  if (matrix.num_groups == 1 || matrix.group_size % 64 == 0) return 64;
  return matrix.group_size % 32 == 0 ? 32 : 0;
}

// Whether all words are the same, as zero points of symmetric matrices are.
bool is_one_word(const BitFields& fields) {
  constexpr size_t kBytes = 4;
  const std::span<const std::byte> words = fields.words;
  return words.size() <= kBytes ||
         std::ranges::equal(words.subspan(kBytes), words.first(words.size() - kBytes));
}

// Whether every zero point of a matrix is the middle of its codes.
bool is_symmetric(const CodedMatrix& matrix, int bits) {
  const float middle = static_cast<float>(1 << (bits - 1)) - code_offset(matrix.codes);
  if (!matrix.zeros) return matrix.zero == middle;
  // Of words that are the same those of one are all that there are: 16 at most.
  const auto* const fields = std::get_if<BitFields>(&*matrix.zeros);
  const bool is_same = fields != nullptr && 32 % fields->bits == 0 && is_one_word(*fields);
  const size_t num_looked_at = is_same ? 16 : SIZE_MAX;
  for (size_t row = 0; row < std::min(matrix.num_rows, num_looked_at); ++row) {
    for (size_t group = 0; group < std::min(matrix.num_groups, num_looked_at); ++group) {
      if (code_at(*matrix.zeros, row, group) != middle) return false;
    }
  }
  return true;
}

}  // namespace

float ScaleGrid::at(size_t row, size_t group) const {
  const size_t place = row / rows_per_scale * row_stride + group * group_stride;
  const size_t size = block_layout(storage).block_bytes;
  float value = 0;
  dequantize(storage, bytes.subspan(place * size, size), std::span(&value, 1));
  return value;
}

void CodedMatrix::read_rows(size_t row_begin, std::span<float> out) const {
  read_code_rows(codes, row_begin, num_columns, out);
  std::vector<float> row_scales(num_groups);
  std::vector<float> row_zeros(num_groups, zero);
  for (size_t r = 0; r < out.size() / num_columns; ++r) {
    for (size_t g = 0; g < num_groups; ++g) {
      row_scales[g] = scales.at(row_begin + r, g);
      if (zeros) row_zeros[g] = code_at(*zeros, row_begin + r, g);
    }
    const std::span<float> row = out.subspan(r * num_columns, num_columns);
    if (!group_of_input.empty()) {
      for (size_t k = 0; k < num_columns; ++k) {
        const size_t group = blocks::load_u32(group_of_input.data() + 4 * k);
        row[k] = (row[k] - row_zeros[group]) * row_scales[group];
      }
      continue;
    }
    for (size_t g = 0; g < num_groups; ++g) {
      const size_t begin = std::min(g * group_size, num_columns);
      const size_t count = std::min(group_size, num_columns - begin);
      for (float& weight : row.subspan(begin, count)) {
        weight = (weight - row_zeros[g]) * row_scales[g];
      }
    }
  }
}

CodeForm CodedMatrix::code_form() const {
  const int bits = code_bits(codes);
  const size_t num_inputs = inputs_of_scale(*this);
  if (bits == 0 || num_inputs == 0) return {};
  return {.bits = bits, .num_inputs = num_inputs, .is_symmetric = is_symmetric(*this, bits)};
}

void CodedMatrix::read_codes(size_t row_begin, const StoredCodes& out) const {
  // Not code_form(), which looks at all zero points.
  CHECK(
      code_bits(codes) != 0 && out.num_inputs > 0 && out.num_inputs <= inputs_of_scale(*this) &&
          64 % out.num_inputs == 0,
      "no such codes are stored"
  );
  const float offset = code_offset(codes);
  std::vector<float> values(out.codes.size());
  read_code_rows(codes, row_begin, num_columns, values);
  std::ranges::transform(values, out.codes.begin(), [&](float value) {
    return static_cast<uint8_t>(value + offset);
  });
  const size_t num_scales = div_ceil(num_columns, out.num_inputs);
  for (size_t i = 0; i < out.scales.size(); ++i) {
    const size_t row = row_begin + i / num_scales;
    const size_t group = i % num_scales * out.num_inputs / group_size;
    const float zero_point = (zeros ? code_at(*zeros, row, group) : zero) + offset;
    out.scales[i] = scales.at(row, group);
    out.bases[i] = -zero_point * out.scales[i];
  }
}

}  // namespace millrace
