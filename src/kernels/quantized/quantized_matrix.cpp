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
#include "kernels/quantized/code_bits.h"
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

// Of each of kCodeFormats.
template <size_t... kIndex>
constexpr std::array<PanelLayout, kNumCodeFormats>
layouts_of_codes(std::index_sequence<kIndex...>) {
  return {CodedWeights<format_of_index(kIndex)>::kLayout...};
}

const PanelLayout& layout_of(QuantizedFormat format) {
  static constexpr auto kOfCodes = layouts_of_codes(std::make_index_sequence<kNumCodeFormats>());
  return are_codes(format) ? kOfCodes[code_format_index(format)] : own_layout(format);
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

// In the order of the formats.
constexpr IsaVersions<void (*)(const RoundPanelTask&)> kRoundPanel[] = {
    {round_panel_reference<Int8Weights>,
     round_panel_avx2<Int8Weights>,
     round_panel_avx512<Int8Weights>},
    {round_panel_reference<Int4Weights>,
     round_panel_avx2<Int4Weights>,
     round_panel_avx512<Int4Weights>},
    {round_panel_reference<Int6Weights>,
     round_panel_avx2<Int6Weights>,
     round_panel_avx512<Int6Weights>},
};
static_assert(std::size(kRoundPanel) == kNumOwnFormats);

// Of the code itself, or of the next one above it.
unsigned index_of_iq4(unsigned code) {
  const auto* const found = std::ranges::lower_bound(kIq4Codes, code);
  return static_cast<unsigned>(std::min(found, std::end(kIq4Codes) - 1) - std::begin(kIq4Codes));
}

// Puts a code of another tool into a group.
void put_code(
    unsigned char* group, const CodeFormat& format, size_t row, size_t input, unsigned code
) {
  if (format.is_iq4) return put_code_bits(group, row, input, 4, index_of_iq4(code));
  put_code_bits(group, row, input, format.bits, code);
}

// Reads the rows of a panel.
class PanelReader {
 public:
  PanelReader(QuantizedFormat format, std::span<const std::byte> panel, size_t num_groups)
      : format_(format),
        layout_(layout_of(format)),
        panel_(reinterpret_cast<const unsigned char*>(panel.data())),
        num_groups_(num_groups) {}

  // REQUIRES: a format of our own.
  float value(size_t row, size_t column) const {
    return weight(row, column) * scale(row, column / kGroup);
  }

  // The first weights of a row of codes.
  void copy_coded_row(const CodeFormat& format, size_t row, std::span<float> out) const {
    for (size_t begin = 0; begin < out.size(); begin += format.num_inputs) {
      const size_t group = begin / kGroup;
      const size_t place = begin % kGroup / format.num_inputs * kRows + row;
      const float scale = to_float(at<Float16>(layout_.scales_offset(group), place));
      const float base = format.has_bases
                             ? to_float(at<Float16>(layout_.bases_offset(group), place))
                             : -static_cast<float>(format.zero_code()) * scale;
      const size_t end = std::min(begin + format.num_inputs, out.size());
      for (size_t column = begin; column < end; ++column) {
        const int value =
            format.is_iq4 ? kIq4Codes[code(row, column, 4)] : code(row, column, format.bits);
        out[column] = (static_cast<float>(value) * scale + base) * row_scale(row);
      }
    }
  }

  // REQUIRES: a format of our own.
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
  int code(size_t row, size_t column, int bits) const {
    const unsigned char* const group = panel_ + layout_.codes_offset(column / kGroup);
    return code_bits_at(group, row, column % kGroup, bits);
  }
  // In units of its scale.
  float weight(size_t row, size_t column) const {
    const int code = this->code(row, column, own_bits(format_));
    if (format_ == QuantizedFormat::kInt4) return kInt4Codebook.entries[code];
    return static_cast<float>(code) - whole_codes(format_)->zero;
  }
};

// The power of two by which scales and bases of a row become float16 of 2^14 to 2^15 at most.
float row_scale_of(std::span<const float> scales, std::span<const float> bases) {
  float peak = 0.0F;
  for (const std::span<const float> values : {scales, bases}) {
    for (const float value : values) peak = std::max(peak, std::fabs(value));
  }
  int exponent = 0;
  std::frexp(peak, &exponent);
  return peak < 0x1p-100F ? 1.0F : std::ldexp(1.0F, exponent - 15);
}

}  // namespace

std::string_view name_of(QuantizedFormat format) {
  constexpr std::string_view kOfBits[] = {"uint4", "uint5", "uint6", "uint7", "uint8"};
  const std::optional<CodeFormat> codes = code_format(format);
  constexpr std::string_view kOwn[] = {"int8", "int4", "int6"};
  static_assert(std::size(kOwn) == kNumOwnFormats);
  if (!codes) return kOwn[static_cast<size_t>(format)];
  return codes->is_iq4 ? "iq4" : kOfBits[codes->bits - 4];
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
  const std::optional<CodeFormat> format = code_format(format_);
  CHECK(format, "codes go into a matrix of such");
  const size_t num_rows = rows.codes.size() / num_columns_;
  const size_t num_inputs = format->num_inputs;
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
    std::span<const float> bases;
    if (format->has_bases) bases = rows.bases.subspan(row * num_scales, num_scales);
    const float row_scale = row_scale_of(scales, bases);
    std::memcpy(
        bytes + layout.row_scales_offset(num_groups()) + row * sizeof row_scale,
        &row_scale,
        sizeof row_scale
    );
    const auto put_half = [&](size_t offset, size_t place, float value) {
      const Float16 half = to_float16(value / row_scale);
      std::memcpy(bytes + offset + place * sizeof half, &half, sizeof half);
    };
    for (size_t i = 0; i < num_scales; ++i) {
      const size_t group = i * num_inputs / kGroup;
      const size_t place = i * num_inputs % kGroup / num_inputs * kRows + row;
      put_half(layout.scales_offset(group), place, scales[i]);
      if (!bases.empty()) put_half(layout.bases_offset(group), place, bases[i]);
    }
    const unsigned mask = (1U << format->bits) - 1;
    for (size_t column = 0; column < num_columns_; ++column) {
      unsigned char* const group = bytes + layout.codes_offset(column / kGroup);
      const unsigned code = rows.codes[row * num_columns_ + column] & mask;
      put_code(group, *format, row, column % kGroup, code);
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
  kRoundPanel[static_cast<size_t>(format_)].find(isa)(task);
}

void QuantizedMatrix::copy_row(size_t row, std::span<float> out) const {
  CHECK(row < num_rows_ && out.size() == num_columns_, "a row of this matrix");
  const PanelReader rounded(format_, panel(row / kRows), num_groups());
  if (const std::optional<CodeFormat> format = code_format(format_)) {
    return rounded.copy_coded_row(*format, row % kRows, out);
  }
  std::vector<float> values(num_groups() * kGroup);
  for (size_t column = 0; column < values.size(); ++column) {
    values[column] = rounded.value(row % kRows, column);
  }
  rotate(Isa::kReference, values, rotation_size(num_columns_));
  std::copy_n(values.begin(), out.size(), out.begin());
}

}  // namespace millrace
