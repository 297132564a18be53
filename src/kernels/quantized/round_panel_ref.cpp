#include <cstring>
#include <span>
#include <vector>

#include "kernels/quantized/round_group.h"
#include "kernels/quantized/round_panel_kernel.h"

namespace millrace {
namespace {

constexpr size_t kRows = QuantizedMatrix::kPanelRows;
constexpr size_t kGroup = QuantizedMatrix::kGroup;

template <class Weights>
constexpr QuantizedFormat kFormat =
    Weights::kGroupBytes == Int8Weights::kGroupBytes ? QuantizedFormat::kInt8
                                                     : QuantizedFormat::kInt4;

void put_codes(QuantizedFormat format, unsigned char* group, size_t row, const GroupCodes& codes) {
  for (size_t input = 0; input < kGroup; ++input) {
    if (format == QuantizedFormat::kInt8) {
      group[(input / 4 * kRows + row) * 4 + input % 4] = codes[input];
    } else {
      unsigned char& byte = group[(input / 8 * kRows + row) * 4 + input % 4];
      const bool is_high = input % 8 >= 4;
      byte = static_cast<unsigned char>(
          is_high ? (byte & 15) | (codes[input] << 4) : (byte & 0xF0) | codes[input]
      );
    }
  }
}

}  // namespace

template <class Weights>
void round_panel_reference(const RoundPanelTask& task) {
  const size_t width = task.num_groups * kGroup;
  std::vector<float> row(width);
  std::vector<float> scales(task.num_groups);
  for (size_t r = 0; r < kRows; ++r) {
    row.assign(task.rows + r * width, task.rows + (r + 1) * width);
    const float row_scale = scale_groups(kFormat<Weights>, row, task.factor, scales);
    std::memcpy(row_scales_of<Weights>(task) + r * sizeof row_scale, &row_scale, sizeof row_scale);
    for (size_t group = 0; group < task.num_groups; ++group) {
      const auto values = std::span<const float, kGroup>(&row[group * kGroup], kGroup);
      scales_of<Weights>(task, group)[r] = static_cast<unsigned char>(scales[group]);
      const GroupCodes codes = round_group(kFormat<Weights>, values, scales[group] * row_scale);
      put_codes(kFormat<Weights>, codes_of<Weights>(task, group), r, codes);
    }
  }
}

template void round_panel_reference<Int8Weights>(const RoundPanelTask&);
template void round_panel_reference<Int4Weights>(const RoundPanelTask&);

}  // namespace millrace
