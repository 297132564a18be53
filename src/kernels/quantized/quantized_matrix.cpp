#include "kernels/quantized/quantized_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "kernels/dispatch.h"
#include "kernels/quantized/encode_rows.h"
#include "kernels/quantized/error_feedback.h"
#include "kernels/quantized/linear_quantized_kernel.h"
#include "kernels/quantized/round_panel_kernel.h"

namespace millrace {
namespace {

constexpr size_t kRows = QuantizedMatrix::kPanelRows;
constexpr size_t kGroup = QuantizedMatrix::kGroup;
static_assert(kGroup == kActivationGroup, "one scale of the weights for each of the activations");

size_t group_bytes(QuantizedFormat format) {
  return format == QuantizedFormat::kInt8 ? Int8Weights::kGroupBytes : Int4Weights::kGroupBytes;
}

// nullopt when it does not fit a size_t.
std::optional<size_t> checked_panel_bytes(QuantizedFormat format, size_t num_columns) {
  if (num_columns > SIZE_MAX / 2) return std::nullopt;
  const size_t num_groups = div_ceil(num_columns, kGroup);
  // Every group, and its scales as if they took 64 bytes each: more than the panel has.
  if (!checked_mul(num_groups + 1, group_bytes(format) + 64)) return std::nullopt;
  return row_scales_offset(group_bytes(format), num_groups) + kRows * sizeof(float);
}

// Of int8, then of int4.
constexpr IsaVersions<void (*)(const RoundPanelTask&)> kRoundPanel[] = {
    {round_panel_reference<Int8Weights>,
     round_panel_avx2<Int8Weights>,
     round_panel_avx512<Int8Weights>},
    {round_panel_reference<Int4Weights>,
     round_panel_avx2<Int4Weights>,
     round_panel_avx512<Int4Weights>},
};

// A code's weight in units of its scales.
float weight_of(QuantizedFormat format, const unsigned char* group, size_t row, size_t input) {
  if (format == QuantizedFormat::kInt8) {
    const size_t place = (input / 4 * kRows + row) * 4 + input % 4;
    return static_cast<float>(group[place]) - 128.0F;
  }
  const int byte = group[(input / 8 * kRows + row) * 4 + input % 4];
  return static_cast<float>(kInt4Codes[input % 8 < 4 ? byte & 15 : byte >> 4]) - 128.0F;
}

}  // namespace

std::string_view name_of(QuantizedFormat format) {
  return format == QuantizedFormat::kInt8 ? "int8" : "int4";
}

std::optional<QuantizedFormat> quantized_format_from_name(std::string_view name) {
  if (name == "int8") return QuantizedFormat::kInt8;
  if (name == "int4") return QuantizedFormat::kInt4;
  return std::nullopt;
}

std::optional<size_t> QuantizedMatrix::num_bytes(
    QuantizedFormat format, size_t num_rows, size_t num_columns
) {
  const std::optional<size_t> panel = checked_panel_bytes(format, num_columns);
  return panel ? checked_mul(div_ceil(num_rows, kRows), *panel) : std::nullopt;
}

Result<QuantizedMatrix> QuantizedMatrix::allocate(
    QuantizedFormat format, size_t num_rows, size_t num_columns
) {
  CHECK(num_rows > 0 && num_columns > 0, "a matrix has rows and columns");
  const std::optional<size_t> bytes = num_bytes(format, num_rows, num_columns);
  if (!bytes) {
    return Error{
        ErrorCode::kResourceExhausted,
        fmt::format("a matrix of {} x {} does not fit in memory", num_rows, num_columns),
        {}};
  }
  Result<Buffer> buffer = Buffer::allocate(*bytes);
  if (!buffer) return buffer.error();

  QuantizedMatrix matrix;
  matrix.format_ = format;
  matrix.num_rows_ = num_rows;
  matrix.num_columns_ = num_columns;
  matrix.buffer_ = *std::move(buffer);
  return matrix;
}

size_t QuantizedMatrix::num_panels() const {
  return div_ceil(num_rows_, kRows);
}
size_t QuantizedMatrix::num_groups() const {
  return div_ceil(num_columns_, kGroup);
}
size_t QuantizedMatrix::panel_bytes() const {
  return *checked_panel_bytes(format_, num_columns_);
}

std::span<const std::byte> QuantizedMatrix::panel(size_t index) const {
  CHECK(index < num_panels(), "the panel is within the matrix");
  return buffer_.bytes().subspan(index * panel_bytes(), panel_bytes());
}
std::span<std::byte> QuantizedMatrix::panel(size_t index) {
  CHECK(index < num_panels(), "the panel is within the matrix");
  return buffer_.bytes().subspan(index * panel_bytes(), panel_bytes());
}

void QuantizedMatrix::pack_panel(size_t index, std::span<const float> rows, Isa isa) {
  round_rows(index, rotate_rows(rows, isa), isa);
}

void QuantizedMatrix::pack_panel(
    size_t index, std::span<const float> rows, const ErrorFeedback& feedback, Isa isa
) {
  const std::vector<float> rotated = rotate_rows(rows, isa);
  round_rows(index, rotated, isa);  // chooses the scales

  auto* const bytes = reinterpret_cast<unsigned char*>(panel(index).data());
  const unsigned char* row_scales = bytes + row_scales_offset(group_bytes(format_), num_groups());
  const size_t width = num_groups() * kGroup;
  const float factor = 1.0F / static_cast<float>(rotation_size(num_columns_));
  std::vector<float> weights(width * kRows);
  std::vector<float> scales(num_groups() * kRows);
  for (size_t row = 0; row < kRows; ++row) {
    float row_scale = 0.0F;
    std::memcpy(&row_scale, row_scales + row * sizeof row_scale, sizeof row_scale);
    for (size_t group = 0; group < num_groups(); ++group) {
      const unsigned char* whole = bytes + group_scales_offset(group_bytes(format_), group);
      scales[group * kRows + row] = static_cast<float>(whole[row]) * row_scale;
    }
    for (size_t column = 0; column < width; ++column) {
      const float weight = rotated[row * width + column] * factor;
      weights[column * kRows + row] =
          std::isnan(weight) ? 0.0F : std::clamp(weight, -kWeightMost, kWeightMost);
    }
  }
  std::vector<GroupCodes> codes(num_groups() * kRows);
  round_with_feedback(format_, weights, scales, feedback, codes, isa);
  for (size_t i = 0; i < codes.size(); ++i) {
    unsigned char* const group = bytes + group_offset(group_bytes(format_), i / kRows);
    put_codes(format_, group, i % kRows, codes[i]);
  }
}

std::vector<float> QuantizedMatrix::rotate_rows(std::span<const float> rows, Isa isa) const {
  CHECK(rows.size() % num_columns_ == 0 && rows.size() / num_columns_ <= kRows, "at most 16 rows");
  const size_t width = num_groups() * kGroup;
  const size_t num_rows = rows.size() / num_columns_;
  std::vector<float> rotated(kRows * width);
  for (size_t row = 0; row < num_rows; ++row) {
    std::ranges::copy(rows.subspan(row * num_columns_, num_columns_), &rotated[row * width]);
  }
  rotate(isa, std::span(rotated).first(num_rows * width), rotation_size(num_columns_));
  return rotated;
}

void QuantizedMatrix::round_rows(size_t index, std::span<const float> rotated, Isa isa) {
  const auto scales = std::make_unique_for_overwrite<float[]>(kRows * num_groups());
  const RoundPanelTask task = {
      .rows = rotated.data(),
      .factor = 1.0F / static_cast<float>(rotation_size(num_columns_)),
      .num_groups = num_groups(),
      .scales = scales.get(),
      .panel = reinterpret_cast<unsigned char*>(panel(index).data()),
  };
  kRoundPanel[format_ == QuantizedFormat::kInt8 ? 0 : 1].find(isa)(task);
}

void QuantizedMatrix::copy_row(size_t row, std::span<float> out) const {
  CHECK(row < num_rows_ && out.size() == num_columns_, "a row of this matrix");
  const auto* bytes = reinterpret_cast<const unsigned char*>(panel(row / kRows).data());
  const unsigned char* row_scales = bytes + row_scales_offset(group_bytes(format_), num_groups());
  float row_scale = 0.0F;
  std::memcpy(&row_scale, row_scales + row % kRows * sizeof row_scale, sizeof row_scale);
  std::vector<float> values(num_groups() * kGroup);
  for (size_t column = 0; column < values.size(); ++column) {
    const size_t group = column / kGroup;
    const unsigned char* codes = bytes + group_offset(group_bytes(format_), group);
    const unsigned char* group_scales = bytes + group_scales_offset(group_bytes(format_), group);
    const float scale = static_cast<float>(group_scales[row % kRows]) * row_scale;
    values[column] = weight_of(format_, codes, row % kRows, column % kGroup) * scale;
  }
  rotate(Isa::kReference, values, rotation_size(num_columns_));
  std::copy_n(values.begin(), out.size(), out.begin());
}

}  // namespace millrace
