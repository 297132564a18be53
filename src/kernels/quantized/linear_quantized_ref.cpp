#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/exp.h"
#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/quantized/linear_quantized_kernel.h"

namespace millrace {
namespace {

constexpr size_t kPanelRows = 16;
constexpr size_t kGroup = 64;

// The weight of a group for an input, with 128 added.
int code_at(Int8Weights, const unsigned char* group, size_t row, size_t input) {
  return group[(input / 4 * kPanelRows + row) * 4 + input % 4];
}
int code_at(Int4Weights, const unsigned char* group, size_t row, size_t input) {
  const int byte = group[(input / 8 * kPanelRows + row) * 4 + input % 4];
  return kInt4Codes[input % 8 < 4 ? byte & 15 : byte >> 4];
}

template <class T>
T read_at(const unsigned char* bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof value, sizeof value);
  return value;
}

template <class Weights>
float output(const QuantizedTask& task, size_t token, size_t row) {
  const unsigned char* panel = task.panels + row / kPanelRows * task.panel_bytes;
  const unsigned char* row_scales =
      panel + row_scales_offset(Weights::kGroupBytes, task.num_groups);
  const unsigned char* values = task.rows + token * task.row_stride;
  const size_t num_parts = task.num_groups * task.num_terms;
  const unsigned char* scales = values + num_parts * kGroup;
  const unsigned char* starts = scales + num_parts * sizeof(float);
  const size_t row_in_panel = row % kPanelRows;
  float sum = 0.0F;
  for (size_t part = 0; part < num_parts; ++part) {
    const size_t group = part / task.num_terms;
    int32_t products = read_at<int32_t>(starts, part) - kSumStart;
    const unsigned char* codes = panel + group_offset(Weights::kGroupBytes, group);
    for (size_t input = 0; input < kGroup; ++input) {
      const auto value = static_cast<int8_t>(values[part * kGroup + input]);
      products += code_at(Weights{}, codes, row_in_panel, input) * value;
    }
    const size_t scales_begin = group_scales_offset(Weights::kGroupBytes, group);
    const auto scale = static_cast<float>(panel[scales_begin + row_in_panel]);
    sum = std::fma(static_cast<float>(products) * scale, read_at<float>(scales, part), sum);
  }
  sum *= read_at<float>(row_scales, row_in_panel);
  return task.output.bias == nullptr ? sum : sum + task.output.bias[row];
}

template <class Weights>
void write_output(const QuantizedTask& task, size_t token, size_t row) {
  const LinearTask& to = task.output;
  if (row >= to.num_outputs) return;  // padding of the last panel
  float& out = to.out[token * to.out_stride + row];
  const float value = output<Weights>(task, token, row);
  out = to.epilogue == LinearEpilogue::kAddToOut ? out + value : value;
}

// `row`: of the gate; its up lies one panel further.
template <class Weights>
void write_gated(const QuantizedTask& task, size_t token, size_t row) {
  const size_t column = row / (2 * kPanelRows) * kPanelRows + row % kPanelRows;
  if (column >= task.output.num_outputs) return;
  const float gate = output<Weights>(task, token, row);
  const float up = output<Weights>(task, token, row + kPanelRows);
  task.output.out[token * task.output.out_stride + column] = silu_reference(gate) * up;
}

}  // namespace

template <class Weights>
void linear_quantized_reference(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  const bool gated = task.output.epilogue == LinearEpilogue::kSiluMul;
  for (size_t panel = panel_begin; panel < panel_end; panel += gated ? 2 : 1) {
    for (size_t row = panel * kPanelRows; row < (panel + 1) * kPanelRows; ++row) {
      for (size_t token = 0; token < task.output.num_tokens; ++token) {
        if (gated) {
          write_gated<Weights>(task, token, row);
        } else {
          write_output<Weights>(task, token, row);
        }
      }
    }
  }
}

template void linear_quantized_reference<Int8Weights>(const QuantizedTask&, size_t, size_t);
template void linear_quantized_reference<Int4Weights>(const QuantizedTask&, size_t, size_t);

}  // namespace millrace
