// Quantized matrices and encoded rows for tests and benchmarks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "base/math.h"
#include "kernels/quantized/encode_rows.h"
#include "kernels/quantized/linear_quantized_kernel.h"
#include "kernels/quantized/quantization.h"
#include "kernels/quantized/quantized_matrix.h"
#include "kernels/quantized/weight_matrix.h"
#include "kernels/test_data.h"
#include "tensor/buffer.h"

namespace millrace {

constexpr QuantizedFormat kQuantizedFormats[] = {
    QuantizedFormat::kInt8, QuantizedFormat::kInt4, QuantizedFormat::kInt6};

// Those of other tools, by their place in kCodeFormats.
inline std::vector<QuantizedFormat> formats_of_codes() {
  std::vector<QuantizedFormat> formats;
  for (size_t i = 0; i < kNumCodeFormats; ++i) formats.push_back(format_of_index(i));
  return formats;
}
inline std::vector<Quantization> all_quantizations() {
  std::vector<Quantization> all = {
      QuantizedFormat::kInt8, Quantization::w8a8(), QuantizedFormat::kInt4, QuantizedFormat::kInt6};
  for (const QuantizedFormat format : formats_of_codes()) all.emplace_back(format);
  return all;
}

// Rows as other tools quantize them: to codes between the least and the largest of a group.
struct CodedRowsData {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<float> bases;

  CodedRows view() const { return {codes, scales, bases}; }

  // The weights that they stand for: [n, num_columns]. `num_inputs`: that share a scale.
  std::vector<float> values(size_t num_columns, size_t num_inputs) const {
    const size_t num_scales = div_ceil(num_columns, num_inputs);
    std::vector<float> weights(codes.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      const size_t place = i / num_columns * num_scales + i % num_columns / num_inputs;
      weights[i] = static_cast<float>(codes[i]) * scales[place] + bases[place];
    }
    return weights;
  }
};

inline float nearest_of_iq4(float code) {
  float nearest = kIq4Codes[0];
  for (const unsigned char of_table : kIq4Codes) {
    const auto other = static_cast<float>(of_table);
    if (std::fabs(other - code) < std::fabs(nearest - code)) nearest = other;
  }
  return nearest;
}

// `rows`: [n, num_columns]. Zero is a code of each group, but among those of IQ4.
inline CodedRowsData coded(
    std::span<const float> rows, size_t num_columns, const CodeFormat& format
) {
  const size_t num_inputs = format.num_inputs;
  const auto code_max = static_cast<float>((1 << format.bits) - 1);
  CodedRowsData data;
  for (size_t row = 0; row < rows.size() / num_columns; ++row) {
    for (size_t begin = 0; begin < num_columns; begin += num_inputs) {
      const size_t count = std::min(num_inputs, num_columns - begin);
      const std::span<const float> values = rows.subspan(row * num_columns + begin, count);
      const float least = std::min(0.0F, *std::ranges::min_element(values));
      const float most = std::max(0.0F, *std::ranges::max_element(values));
      const float range = format.has_bases ? most - least : 2.0F * std::max(most, -least);
      const float scale = to_float(to_float16(std::max(range / code_max, 1e-4F)));
      const float zero = format.has_bases ? std::round(std::clamp(-least / scale, 0.0F, code_max))
                                          : static_cast<float>(format.zero_code());
      data.scales.push_back(scale);
      data.bases.push_back(to_float(to_float16(-zero * scale)));
      for (const float value : values) {
        float code = std::clamp(std::round(value / scale) + zero, 0.0F, code_max);
        if (format.is_iq4) code = nearest_of_iq4(code);
        data.codes.push_back(static_cast<uint8_t>(code));
      }
    }
  }
  return data;
}

// Those of a model's matrices that are not codes of other tools.
inline constexpr WeightFormat kWeightFormats[] = {
    {DType::kFloat32},
    {DType::kFloat16},
    {DType::kBFloat16},
    {DType::kBFloat16, QuantizedFormat::kInt8},
    {DType::kBFloat16, Quantization::w8a8()},
    {DType::kBFloat16, QuantizedFormat::kInt4},
    {DType::kBFloat16, QuantizedFormat::kInt6},
};

// Packs rows, [n, num_columns], into panels from `first_panel` on.
inline void pack_rows(
    std::span<const float> rows, size_t num_columns, WeightMatrix& matrix, size_t first_panel = 0
) {
  constexpr size_t kPanelRows = WeightMatrix::kPanelRows;
  const size_t num_rows = rows.size() / num_columns;
  for (size_t row = 0; row < num_rows; row += kPanelRows) {
    const size_t count = std::min(kPanelRows, num_rows - row);
    const auto of_panel = rows.subspan(row * num_columns, count * num_columns);
    matrix.pack_panel(first_panel + row / kPanelRows, of_panel);
  }
}

// `rows`: [num_rows, num_columns].
inline QuantizedMatrix quantized(
    QuantizedFormat format, std::span<const float> rows, size_t num_columns, Isa isa = best_isa()
) {
  const size_t num_rows = rows.size() / num_columns;
  QuantizedMatrix matrix = *QuantizedMatrix::allocate(format, num_rows, num_columns);
  for (size_t panel = 0; panel < matrix.num_panels(); ++panel) {
    const size_t begin = panel * 16;
    const size_t count = std::min<size_t>(16, num_rows - begin);
    const auto of_panel = rows.subspan(begin * num_columns, count * num_columns);
    if (const std::optional<CodeFormat> codes = code_format(format)) {
      matrix.pack_codes(panel, coded(of_panel, num_columns, *codes).view());
    } else {
      matrix.pack_panel(panel, of_panel, isa);
    }
  }
  return matrix;
}

inline std::vector<std::byte> bytes_of(const QuantizedMatrix& matrix) {
  std::vector<std::byte> bytes(matrix.num_bytes());
  std::memcpy(bytes.data(), matrix.data(), bytes.size());
  return bytes;
}

// R, upper triangular, with H = R R^T: element by element from the last column on, as it follows
// from the definition. `h`: [size, size], positive definite; the result the same.
inline std::vector<double> upper_factor(const std::vector<double>& h, size_t size) {
  std::vector<double> r(size * size);
  for (size_t c = size; c-- > 0;) {
    for (size_t i = c + 1; i-- > 0;) {
      double rest = h[i * size + c];
      for (size_t k = c + 1; k < size; ++k) rest -= r[i * size + k] * r[c * size + k];
      r[i * size + c] = i == c ? std::sqrt(rest) : rest / r[c * size + c];
    }
  }
  return r;
}

}  // namespace millrace
