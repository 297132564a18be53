#include "kernels/quantized/quantized_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/math.h"
#include "kernels/dispatch.h"
#include "kernels/quantized/encode_rows.h"
#include "kernels/quantized/error_feedback.h"
#include "kernels/quantized/linear_quantized_kernel.h"
#include "kernels/quantized/round_panel_kernel.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

constexpr size_t kRows = QuantizedMatrix::kPanelRows;
constexpr size_t kGroup = QuantizedMatrix::kGroup;
static_assert(kGroup == kActivationGroup, "one scale of the weights for each of the activations");

const PanelLayout& layout_of(QuantizedFormat format) {
  static constexpr PanelLayout kLayouts[] = {
      Int8Weights::kLayout,
      Int4Weights::kLayout,
      Uint4Weights<64>::kLayout,
      Uint4Weights<32>::kLayout};
  return kLayouts[static_cast<size_t>(format)];
}

// nullopt when it does not fit a size_t.
std::optional<size_t> checked_panel_bytes(QuantizedFormat format, size_t num_columns) {
  if (num_columns > SIZE_MAX / 2) return std::nullopt;
  const size_t num_groups = div_ceil(num_columns, kGroup);
  // Every group as if it had a header of its own: more than the panel has.
  const PanelLayout& layout = layout_of(format);
  if (!checked_mul(num_groups + 1, layout.group_bytes + layout.header_bytes())) return std::nullopt;
  return layout.row_scales_offset(num_groups) + kRows * sizeof(float);
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

// The byte in which a group has the four bits of a row and an input.
size_t byte_of_nibble(size_t row, size_t input) {
  return (input / 8 * kRows + row) * 4 + input % 4;
}

// Reads the rows of a panel.
class PanelReader {
 public:
  PanelReader(QuantizedFormat format, std::span<const std::byte> panel, size_t num_groups)
      : format_(format),
        layout_(layout_of(format)),
        panel_(reinterpret_cast<const unsigned char*>(panel.data())),
        num_groups_(num_groups) {}

  float value(size_t row, size_t column) const {
    if (!are_codes(format_)) return weight(row, column) * scale(row, column / kGroup);
    const size_t group = column / kGroup;
    const size_t place = column % kGroup / scale_inputs(format_) * kRows + row;
    const float scale = to_float(at<Float16>(layout_.scales_offset(group), place));
    const float base = to_float(at<Float16>(layout_.bases_offset(group), place));
    return (static_cast<float>(nibble(row, column)) * scale + base) * row_scale(row);
  }

  // REQUIRES: int8 or int4.
  float scale(size_t row, size_t group) const {
    return static_cast<float>(panel_[layout_.scales_offset(group) + row]) * row_scale(row);
  }

 private:
  QuantizedFormat format_;
  const PanelLayout& layout_;
  const unsigned char* panel_;
  size_t num_groups_;

  template <class T>
  T at(size_t offset, size_t place) const {
    T value;
    std::memcpy(&value, panel_ + offset + place * sizeof value, sizeof value);
    return value;
  }
  float row_scale(size_t row) const {
    return at<float>(layout_.row_scales_offset(num_groups_), row);
  }
  int nibble(size_t row, size_t column) const {
    const size_t input = column % kGroup;
    const size_t place = layout_.codes_offset(column / kGroup) + byte_of_nibble(row, input);
    return input % 8 < 4 ? panel_[place] & 15 : panel_[place] >> 4;
  }
  // In units of its scale.
  float weight(size_t row, size_t column) const {
    if (format_ == QuantizedFormat::kInt4) {
      return static_cast<float>(kInt4Codes[nibble(row, column)]) - 128.0F;
    }
    const size_t input = column % kGroup;
    const size_t place = (input / 4 * kRows + row) * 4 + input % 4;
    return static_cast<float>(panel_[layout_.codes_offset(column / kGroup) + place]) - 128.0F;
  }
};

// The power of two by which scales and bases of a row become float16 of 2^14 to 2^15 at most; what
// is not finite does not count.
float row_scale_of(std::span<const float> scales, std::span<const float> bases) {
  float peak = 0.0F;
  for (const std::span<const float> values : {scales, bases}) {
    for (const float value : values) {
      if (std::isfinite(value)) peak = std::max(peak, std::fabs(value));
    }
  }
  int exponent = 0;
  std::frexp(peak, &exponent);
  return peak < 0x1p-100F ? 1.0F : std::ldexp(1.0F, exponent - 15);
}

}  // namespace

std::string_view name_of(QuantizedFormat format) {
  constexpr std::string_view kNames[] = {"int8", "int4", "uint4", "uint4"};
  return kNames[static_cast<size_t>(format)];
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

void QuantizedMatrix::pack_codes(size_t index, const CodedRows& rows) {
  CHECK(are_codes(format_), "codes go into a matrix of such");
  const size_t num_rows = rows.codes.size() / num_columns_;
  const size_t num_inputs = scale_inputs(format_);
  const size_t num_scales = div_ceil(num_columns_, num_inputs);
  CHECK(
      num_rows <= kRows && rows.codes.size() == num_rows * num_columns_ &&
          rows.scales.size() == num_rows * num_scales && rows.bases.size() == rows.scales.size(),
      "at most 16 rows, with all their scales and bases"
  );
  const PanelLayout& layout = layout_of(format_);
  auto* const bytes = reinterpret_cast<unsigned char*>(panel(index).data());
  std::memset(bytes, 0, panel_bytes());
  for (size_t row = 0; row < num_rows; ++row) {
    const std::span<const float> scales = rows.scales.subspan(row * num_scales, num_scales);
    const std::span<const float> bases = rows.bases.subspan(row * num_scales, num_scales);
    const float row_scale = row_scale_of(scales, bases);
    std::memcpy(
        bytes + layout.row_scales_offset(num_groups()) + row * sizeof row_scale,
        &row_scale,
        sizeof row_scale
    );
    const auto put_half = [&](size_t offset, size_t place, float value) {
      const float scaled = value / row_scale;
      const Float16 half = to_float16(std::isfinite(scaled) ? scaled : 0.0F);
      std::memcpy(bytes + offset + place * sizeof half, &half, sizeof half);
    };
    for (size_t i = 0; i < num_scales; ++i) {
      const size_t group = i * num_inputs / kGroup;
      const size_t place = i * num_inputs % kGroup / num_inputs * kRows + row;
      put_half(layout.scales_offset(group), place, scales[i]);
      put_half(layout.bases_offset(group), place, bases[i]);
    }
    for (size_t column = 0; column < num_columns_; ++column) {
      const int code = rows.codes[row * num_columns_ + column] & 15;
      const size_t input = column % kGroup;
      unsigned char* const codes = bytes + layout.codes_offset(column / kGroup);
      codes[byte_of_nibble(row, input)] |=
          static_cast<unsigned char>(input % 8 < 4 ? code : code << 4);
    }
  }
}

void QuantizedMatrix::pack_panel(size_t index, std::span<const float> rows, Isa isa) {
  round_rows(index, rotate_rows(rows, isa), isa);
}

void QuantizedMatrix::pack_panel(
    size_t index, std::span<const float> rows, const ErrorFeedback& feedback, Isa isa
) {
  const std::vector<float> rotated = rotate_rows(rows, isa);
  round_rows(index, rotated, isa);  // chooses the scales

  const PanelReader rounded(format_, std::as_const(*this).panel(index), num_groups());
  const size_t width = num_groups() * kGroup;
  const float factor = 1.0F / static_cast<float>(rotation_size(num_columns_));
  std::vector<float> weights(width * kRows);
  std::vector<float> scales(num_groups() * kRows);
  for (size_t row = 0; row < kRows; ++row) {
    for (size_t group = 0; group < num_groups(); ++group) {
      scales[group * kRows + row] = rounded.scale(row, group);
    }
    for (size_t column = 0; column < width; ++column) {
      const float weight = rotated[row * width + column] * factor;
      weights[column * kRows + row] =
          std::isnan(weight) ? 0.0F : std::clamp(weight, -kWeightMost, kWeightMost);
    }
  }
  std::vector<GroupCodes> codes(num_groups() * kRows);
  round_with_feedback(format_, weights, scales, feedback, codes, isa);
  auto* const bytes = reinterpret_cast<unsigned char*>(panel(index).data());
  for (size_t i = 0; i < codes.size(); ++i) {
    unsigned char* const group = bytes + layout_of(format_).codes_offset(i / kRows);
    put_codes(format_, group, i % kRows, codes[i]);
  }
}

std::vector<float> QuantizedMatrix::rotate_rows(std::span<const float> rows, Isa isa) const {
  CHECK(!are_codes(format_), "nothing is rounded to codes of other tools");
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
  const PanelReader rounded(format_, panel(row / kRows), num_groups());
  std::vector<float> values(num_groups() * kGroup);
  for (size_t column = 0; column < values.size(); ++column) {
    values[column] = rounded.value(row % kRows, column);
  }
  if (!are_codes(format_)) {
    rotate(Isa::kReference, values, rotation_size(num_columns_));
  }
  std::copy_n(values.begin(), out.size(), out.begin());
}

}  // namespace millrace
