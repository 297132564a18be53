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
constexpr QuantizedFormat kFormat = QuantizedFormat::kInt4;
template <>
constexpr QuantizedFormat kFormat<Int8Weights> = QuantizedFormat::kInt8;
template <>
constexpr QuantizedFormat kFormat<Int6Weights> = QuantizedFormat::kInt6;

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
template void round_panel_reference<Int6Weights>(const RoundPanelTask&);

}  // namespace millrace
