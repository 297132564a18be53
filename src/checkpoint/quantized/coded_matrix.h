// One matrix of a checkpoint that another tool has quantized: weights as codes less zero points,
// times scales.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "checkpoint/quantized/codes.h"
#include "checkpoint/quantized/quantization_config.h"
#include "checkpoint/weight_source.h"

namespace millrace {

// Scales of rows and of groups of inputs, wherever they stand.
struct ScaleGrid {
  std::span<const std::byte> bytes;
  StorageType storage = StorageType::kF16;
  size_t rows_per_scale = 1;
  size_t row_stride = 0;    // elements between the scales of neighbouring rows; 0: all have one
  size_t group_stride = 0;  // between those of neighbouring groups

  // REQUIRES: a row and a group of the matrix.
  float at(size_t row, size_t group) const;
};

// weight[n][k] = (code[n][k] - zero[n][g]) * scale[n][g], g the group of input k: the difference is
// exact, the product rounded once.
struct CodedMatrix {
  size_t num_rows = 0;
  size_t num_columns = 0;
  Codes codes;
  std::optional<Codes> zeros;  // [rows, groups]
  float zero = 0;              // where there are none
  ScaleGrid scales;
  size_t num_groups = 1;
  size_t group_size = 1;                      // consecutive inputs of a group, unless:
  std::span<const std::byte> group_of_input;  // int32 [columns], as it lies in the file

  // `out`: rows [row_begin, row_begin + out.size() / num_columns).
  void read_rows(size_t row_begin, std::span<float> out) const;

  // As those of WeightSource.
  CodeForm code_form() const;
  void read_codes(size_t row_begin, const StoredCodes& out) const;
};

// Which tensors a quantized matrix consists of, by the last part of the one that holds the codes.
enum class MatrixLayout {
  kAwq,     // qweight, qzeros, scales
  kGptq,    // the same, and g_idx
  kPacked,  // weight_packed, weight_shape, weight_scale, weight_zero_point, weight_g_idx
  kBytes,   // weight, weight_scale or weight_scale_inv, weight_zero_point, weight_g_idx
};

// The layout of the matrix whose codes `tensor` holds; none for every other tensor.
std::optional<MatrixLayout> layout_of(const TensorInfo& tensor, QuantizationMethod method);

// `module`: the name of the matrix without its last part, "model.layers.0.mlp.down_proj". Every
// tensor of it is checked, and what is returned borrows `stored`. kNotFound, kInvalidArgument and
// kUnsupported name the tensor, and what was expected of it.
Result<CodedMatrix> find_matrix(
    const WeightSource& stored,
    const std::string& module,
    MatrixLayout layout,
    const QuantizationConfig& config
);

}  // namespace millrace
