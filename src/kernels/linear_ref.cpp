#include <cmath>

#include "kernels/exp.h"
#include "kernels/linear_kernel.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

constexpr size_t kPanelRows = 16;

template <class Weight>
float weight_at(const Weight* panel, size_t row, size_t input) {
  return to_float(panel[input * kPanelRows + row]);
}
template <>
float weight_at(const BFloat16* panel, size_t row, size_t input) {
  return to_float(panel[(input / 2 * kPanelRows + row) * 2 + input % 2]);
}

// The row of a panel times the inputs.
template <class Weight>
float sum_of(const Weight* panel, size_t row, const float* x, size_t num_inputs) {
  float sum = 0.0F;
  for (size_t input = 0; input < num_inputs; ++input) {
    sum = std::fma(weight_at(panel, row, input), x[input], sum);
  }
  return sum;
}
// Pair by pair, the odd one first.
template <>
float sum_of(const BFloat16* panel, size_t row, const float* x, size_t num_inputs) {
  float sum = 0.0F;
  for (size_t input = 0; input < num_inputs; input += 2) {
    sum = std::fma(weight_at(panel, row, input + 1), x[input + 1], sum);
    sum = std::fma(weight_at(panel, row, input), x[input], sum);
  }
  return sum;
}

template <class Weight>
float output(const LinearTask& task, size_t token, size_t row) {
  const Weight* panel =
      static_cast<const Weight*>(task.weights) + row / kPanelRows * task.panel_size;
  const float* x = static_cast<const float*>(task.x) + token * task.x_stride;
  const float sum = sum_of(panel, row % kPanelRows, x, task.num_inputs);
  return task.bias == nullptr ? sum : sum + task.bias[row];
}

template <class Weight>
void write_output(const LinearTask& task, size_t token, size_t row) {
  if (row >= task.num_outputs) return;  // padding of the last panel
  float& out = task.out[token * task.out_stride + row];
  const float value = output<Weight>(task, token, row);
  out = task.epilogue == LinearEpilogue::kAddToOut ? out + value : value;
}

// `row`: of the gate; its up lies one panel further.
template <class Weight>
void write_gated(const LinearTask& task, size_t token, size_t row) {
  const size_t column = row / (2 * kPanelRows) * kPanelRows + row % kPanelRows;
  if (column >= task.num_outputs) return;
  const float gate = output<Weight>(task, token, row);
  const float up = output<Weight>(task, token, row + kPanelRows);
  task.out[token * task.out_stride + column] = silu_reference(gate) * up;
}

}  // namespace

template <class Weight>
void linear_reference(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  const bool gated = task.epilogue == LinearEpilogue::kSiluMul;
  for (size_t panel = panel_begin; panel < panel_end; panel += gated ? 2 : 1) {
    for (size_t row = panel * kPanelRows; row < (panel + 1) * kPanelRows; ++row) {
      for (size_t token = 0; token < task.num_tokens; ++token) {
        if (gated) {
          write_gated<Weight>(task, token, row);
        } else {
          write_output<Weight>(task, token, row);
        }
      }
    }
  }
}

template void linear_reference<float>(const LinearTask&, size_t, size_t);
template void linear_reference<Float16>(const LinearTask&, size_t, size_t);
template void linear_reference<BFloat16>(const LinearTask&, size_t, size_t);

}  // namespace millrace
