#include <algorithm>
#include <cmath>
#include <span>

#include "kernels/exp.h"
#include "kernels/linear_kernel.h"
#include "kernels/packed_bfloat16.h"
#include "tensor/dtype.h"

namespace millrace {
namespace {

constexpr size_t kPanelRows = 16;

// Row `row` of the matrix times the inputs.
template <class Weight>
float sum_of(const LinearTask& task, size_t row, const float* x) {
  const Weight* panel =
      static_cast<const Weight*>(task.weights) + row / kPanelRows * task.panel_size;
  float sum = 0.0F;
  for (size_t input = 0; input < task.num_inputs; ++input) {
    sum = std::fma(to_float(panel[input * kPanelRows + row % kPanelRows]), x[input], sum);
  }
  return sum;
}

// A bfloat16 matrix, and the sum over its row that vdpbf16ps makes: pair by pair, the odd one
// first.
struct PairByPair {};
// The one that AMX makes: of 32 inputs the even and the odd ones apart.
struct TileByTile {};

// The inputs of a row that its panel has, then the exceptions.
template <class SumOfPacked>
float sum_of_bfloat16(
    const LinearTask& task, size_t row, const float* x, const SumOfPacked& sum_of_packed
) {
  const size_t panel = row / kPanelRows;
  const uint8_t* packed = static_cast<const uint8_t*>(task.weights) + panel * task.panel_size;
  float sum = sum_of_packed([&](size_t input) {
    return to_float(bfloat16_panel_weight(task.bfloat16_panels, packed, row % kPanelRows, input));
  });
  const PanelExceptions& exceptions = task.exceptions[panel];
  for (const WeightException& exception : std::span(exceptions.data, exceptions.size)) {
    if (exception.row != row % kPanelRows) continue;
    sum = std::fma(to_float(BFloat16{exception.bits}), x[exception.column], sum);
  }
  return sum;
}
template <>
float sum_of<PairByPair>(const LinearTask& task, size_t row, const float* x) {
  return sum_of_bfloat16(task, row, x, [&](const auto& weight_at) {
    float sum = 0.0F;
    for (size_t input = 0; input < task.num_inputs; input += 2) {
      sum = std::fma(weight_at(input + 1), x[input + 1], sum);
      sum = std::fma(weight_at(input), x[input], sum);
    }
    return sum;
  });
}
template <>
float sum_of<TileByTile>(const LinearTask& task, size_t row, const float* x) {
  constexpr size_t kTileInputs = 32;
  return sum_of_bfloat16(task, row, x, [&](const auto& weight_at) {
    float sum = 0.0F;
    for (size_t begin = 0; begin < task.num_inputs; begin += kTileInputs) {
      float even = 0.0F;
      float odd = 0.0F;
      const size_t end = std::min(begin + kTileInputs, task.num_inputs);
      for (size_t input = begin; input < end; input += 2) {
        even = std::fma(weight_at(input), x[input], even);
        odd = std::fma(weight_at(input + 1), x[input + 1], odd);
      }
      if (end < begin + kTileInputs) {  // the others are products of 0
        even += 0.0F;
        odd += 0.0F;
      }
      sum += even + odd;
    }
    return sum;
  });
}

template <class Weight>
float output(const LinearTask& task, size_t token, size_t row) {
  const float* x = static_cast<const float*>(task.x) + token * task.x_stride;
  const float sum = sum_of<Weight>(task, row, x);
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

template <class Weight>
void write_panels(const LinearTask& task, size_t panel_begin, size_t panel_end) {
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

}  // namespace

template <class Weight>
void linear_reference(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  write_panels<Weight>(task, panel_begin, panel_end);
}
template <>
void linear_reference<BFloat16>(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  write_panels<PairByPair>(task, panel_begin, panel_end);
}
void linear_amx_reference(const LinearTask& task, size_t panel_begin, size_t panel_end) {
  write_panels<TileByTile>(task, panel_begin, panel_end);
}

template void linear_reference<float>(const LinearTask&, size_t, size_t);
template void linear_reference<Float16>(const LinearTask&, size_t, size_t);

}  // namespace millrace
