#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/exp.h"
#include "kernels/quantized/code_bits.h"
#include "kernels/quantized/encode_rows_kernel.h"
#include "kernels/quantized/linear_quantized_kernel.h"

namespace millrace {
namespace {

constexpr size_t kPanelRows = 16;
constexpr size_t kGroup = 64;

// The weight of a group for an input, with kInt8Zero, kInt4Zero or kInt6Zero added.
int code_at(Int8Weights, const unsigned char* group, size_t row, size_t input) {
  return code_bits_at(group, row, input, 8);
}
int code_at(Int4Weights, const unsigned char* group, size_t row, size_t input) {
  return kInt4Codes[code_bits_at(group, row, input, 4)];
}
int code_at(Int6Weights, const unsigned char* group, size_t row, size_t input) {
  return code_bits_at(group, row, input, 6);
}

// A code of another tool.
template <class Weights>
requires kAreCodes<Weights>
int code_at(Weights weights, const unsigned char* group, size_t row, size_t input) {
  const int code = code_bits_at(group, row, input, weights.kStoredBits);
  return weights.kCodes.is_iq4 ? kIq4Codes[code] : code;
}

template <class T>
T read_at(const unsigned char* bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes + index * sizeof value, sizeof value);
  return value;
}

// The weights of one row of a panel.
template <class Weights>
struct WeightRow {
  const unsigned char* panel;
  size_t row_in_panel;

  int code(size_t group, size_t input) const {
    return code_at(Weights{}, panel + Weights::kLayout.codes_offset(group), row_in_panel, input);
  }
  int group_scale(size_t group) const {
    return panel[Weights::kLayout.scales_offset(group) + row_in_panel];
  }
  // Of a part of a group of codes.
  float part_scale(size_t group, size_t part) const {
    return half_at(Weights::kLayout.scales_offset(group), part);
  }
  float part_base(size_t group, size_t part) const {
    return half_at(Weights::kLayout.bases_offset(group), part);
  }
  float row_scale(size_t num_groups) const {
    return read_at<float>(panel + Weights::kLayout.row_scales_offset(num_groups), row_in_panel);
  }

 private:
  float half_at(size_t offset, size_t part) const {
    return to_float(read_at<Float16>(panel + offset, part * kPanelRows + row_in_panel));
  }
};

// An input of a group, whose numbers have one byte or two.
int number_at(const unsigned char* values, size_t value_bytes, size_t input) {
  const int first = static_cast<int8_t>(values[input]);
  if (value_bytes == kGroup) return first;
  return 256 * first + static_cast<int8_t>(values[kGroup + input]);
}

// A row of the matrix times the inputs of a token: group by group.
struct GroupByGroup {
  template <class Weights>
  static float sum(const QuantizedTask& task, size_t token, const WeightRow<Weights>& weights) {
    const unsigned char* const row = task.rows + token * task.row_stride;
    const unsigned char* const starts = row + task.num_groups * task.value_bytes;
    const unsigned char* const scales = starts + task.num_groups * sizeof(int32_t);
    const int32_t start_of_none = task.value_bytes == kGroup ? kSumStart : 0;
    float sum = 0.0F;
    for (size_t group = 0; group < task.num_groups; ++group) {
      const unsigned char* const values = row + group * task.value_bytes;
      int32_t products = read_at<int32_t>(starts, group) - start_of_none;
      for (size_t input = 0; input < kGroup; ++input) {
        products += weights.code(group, input) * number_at(values, task.value_bytes, input);
      }
      const auto scale = static_cast<float>(weights.group_scale(group));
      if (task.has_row_scales) {
        sum = std::fma(static_cast<float>(products), scale, sum);
      } else {
        sum = std::fma(static_cast<float>(products) * scale, read_at<float>(scales, group), sum);
      }
    }
    const float product = sum * weights.row_scale(task.num_groups);
    return task.has_row_scales ? product * read_at<float>(scales, 0) : product;
  }
};

// The same of codes.
struct CodesGroupByGroup {
  template <class Weights>
  static int32_t start_of(const CodedInputs& coded, size_t part) {
    constexpr size_t kQuarters = 4 / Weights::kParts;
    int32_t start = 0;
    for (size_t i = 0; i < kQuarters; ++i) start += coded.starts[part * kQuarters + i];
    return start >> (kStartBits - Weights::kZeroBits);
  }
  // What a base is multiplied by.
  template <class Weights>
  static float inputs_of(const CodedInputs& coded, size_t part) {
    if (Weights::kParts == 1) return coded.sum;
    if (Weights::kParts == 2) return coded.half_sums[part];
    return static_cast<float>(-(coded.starts[part] >> kStartBits));
  }

  template <class Weights>
  static float sum(const QuantizedTask& task, size_t token, const WeightRow<Weights>& weights) {
    constexpr size_t kPartInputs = kGroup / Weights::kParts;
    const unsigned char* const row = task.rows + token * task.row_stride;
    float sum = 0.0F;
    for (size_t group = 0; group < task.num_groups; ++group) {
      const unsigned char* const values = row + group * task.value_bytes;
      const auto coded = read_at<CodedInputs>(row + task.num_groups * task.value_bytes, group);
      float value = 0.0F;
      for (size_t part = 0; part < Weights::kParts; ++part) {
        int32_t products = Weights::kCodes.has_bases ? 0 : start_of<Weights>(coded, part);
        for (size_t i = part * kPartInputs; i < (part + 1) * kPartInputs; ++i) {
          products += weights.code(group, i) * number_at(values, task.value_bytes, i);
        }
        value = std::fma(static_cast<float>(products), weights.part_scale(group, part), value);
      }
      for (size_t part = 0; Weights::kCodes.has_bases && part < Weights::kParts; ++part) {
        value = std::fma(weights.part_base(group, part), inputs_of<Weights>(coded, part), value);
      }
      sum = std::fma(value, coded.scale, sum);
    }
    return sum * weights.row_scale(task.num_groups);
  }
};

// The same by tiles of bfloat16, of int8.
struct TileByTile {
  static constexpr size_t kTileInputs = 32;

  static float weight(const WeightRow<Int8Weights>& weights, size_t input) {
    const size_t group = input / kGroup;
    const int value =
        (weights.code(group, input % kGroup) - kInt8Zero) * weights.group_scale(group);
    const Float16 rounded = to_float16(static_cast<float>(value));
    return to_float(BFloat16{cut_to_bfloat16(rounded.bits)});
  }

  template <class Weights>
  static float sum(const QuantizedTask& task, size_t token, const WeightRow<Weights>& weights) {
    const size_t tile_rows = task.row_stride / (kTileInputs * sizeof(BFloat16));
    const size_t num_tiles = task.num_groups * kGroup / kTileInputs;
    float sum = 0.0F;
    for (size_t tile = 0; tile < num_tiles; ++tile) {
      const unsigned char* tile_data =
          task.rows + (token / 16 * num_tiles + tile) * task.row_stride;
      const size_t row_begin = token % tile_rows * kTileInputs;
      float chains[2] = {0.0F, 0.0F};
      for (size_t place = 0; place < kTileInputs; ++place) {
        const size_t input = tile * kTileInputs + place / 4 * 4 + kTilePlaces[place % 4];
        const float x = to_float(read_at<BFloat16>(tile_data, row_begin + place));
        chains[place % 2] = std::fma(weight(weights, input), x, chains[place % 2]);
      }
      sum += chains[0] + chains[1];
    }
    return sum * (weights.row_scale(task.num_groups) * kCutScale);
  }
};

// The same by tiles of bytes, of int4: all products of a row are summed as integers.
struct RowAtOnce {
  template <class Weights>
  static float sum(const QuantizedTask& task, size_t token, const WeightRow<Weights>& weights) {
    const size_t tile_rows = task.row_stride / kGroup;
    int32_t sum = 0;
    for (size_t group = 0; group < task.num_groups; ++group) {
      const unsigned char* tile =
          task.rows + (token / 16 * task.num_groups + group) * task.row_stride;
      for (size_t input = 0; input < kGroup; ++input) {
        const auto x = static_cast<int8_t>(tile[token % tile_rows * kGroup + input]);
        const int code = weights.code(group, input) - kInt4Zero;
        sum += scaled_code(code, weights.group_scale(group)) * x;
      }
    }
    const ByteRow& x = task.output.x_rows[token];
    const float row_scale = weights.row_scale(task.num_groups) * kHalfStep;
    return static_cast<float>(2 * sum + x.sum) * x.scale * row_scale;
  }
};

// Order: one of the four.
template <class Order, class Weights>
float output(const QuantizedTask& task, size_t token, size_t row) {
  const unsigned char* panel = task.panels + row / kPanelRows * task.panel_bytes;
  const float sum = Order::template sum<Weights>(task, token, {panel, row % kPanelRows});
  return task.output.bias == nullptr ? sum : sum + task.output.bias[row];
}

template <class Order, class Weights>
void write_output(const QuantizedTask& task, size_t token, size_t row) {
  const LinearTask& to = task.output;
  if (row >= to.num_outputs) return;  // padding of the last panel
  float& out = to.out[token * to.out_stride + row];
  const float value = output<Order, Weights>(task, token, row);
  out = to.epilogue == LinearEpilogue::kAddToOut ? out + value : value;
}

// `row`: of the gate; its up lies one panel further.
template <class Order, class Weights>
void write_gated(const QuantizedTask& task, size_t token, size_t row) {
  const size_t column = row / (2 * kPanelRows) * kPanelRows + row % kPanelRows;
  if (column >= task.output.num_outputs) return;
  const float gate = output<Order, Weights>(task, token, row);
  const float up = output<Order, Weights>(task, token, row + kPanelRows);
  task.output.out[token * task.output.out_stride + column] = silu_reference(gate) * up;
}

template <class Order, class Weights>
void write_panels(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  const bool gated = task.output.epilogue == LinearEpilogue::kSiluMul;
  for (size_t panel = panel_begin; panel < panel_end; panel += gated ? 2 : 1) {
    for (size_t row = panel * kPanelRows; row < (panel + 1) * kPanelRows; ++row) {
      for (size_t token = 0; token < task.output.num_tokens; ++token) {
        if (gated) {
          write_gated<Order, Weights>(task, token, row);
        } else {
          write_output<Order, Weights>(task, token, row);
        }
      }
    }
  }
}

}  // namespace

template <class Weights>
void linear_quantized_reference(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  if constexpr (kAreCodes<Weights>) {
    write_panels<CodesGroupByGroup, Weights>(task, panel_begin, panel_end);
  } else {
    write_panels<GroupByGroup, Weights>(task, panel_begin, panel_end);
  }
}
void linear_int8_amx_reference(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  write_panels<TileByTile, Int8Weights>(task, panel_begin, panel_end);
}
void linear_int4_amx_reference(const QuantizedTask& task, size_t panel_begin, size_t panel_end) {
  write_panels<RowAtOnce, Int4Weights>(task, panel_begin, panel_end);
}

template void linear_quantized_reference<Int8Weights>(const QuantizedTask&, size_t, size_t);
template void linear_quantized_reference<Int4Weights>(const QuantizedTask&, size_t, size_t);
template void linear_quantized_reference<Int6Weights>(const QuantizedTask&, size_t, size_t);
MILLRACE_INSTANTIATE_CODES(linear_quantized_reference)

}  // namespace millrace
