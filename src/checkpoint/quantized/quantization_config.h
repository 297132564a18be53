// What config.json says of weights that another tool has quantized.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace millrace {

enum class QuantizationMethod { kAwq, kGptq, kFp8, kCompressedTensors };

// What cannot be seen from the tensors themselves. Which matrices are quantized is seen from their
// tensors, and so are the lists of those that are not passed over.
struct QuantizationConfig {
  QuantizationMethod method = QuantizationMethod::kAwq;
  int bits = 4;            // GPTQ and compressed-tensors: where shapes leave it open
  int64_t group_size = 0;  // AWQ and GPTQ, without g_idx: inputs that share a scale; 0: all
  bool zeros_are_one_less = false;  // GPTQ's first version stores zero points less one
  int64_t block_rows = 0;           // FP8 and compressed-tensors: the block that shares a scale
  int64_t block_columns = 0;
  // compressed-tensors: of how many inputs groups are, in one matrix or another; none: not said.
  std::vector<int64_t> group_sizes = {};
};

// none: the weights are plain, or quantized in a way that is not read here ("quantization_config"
// is then left to who reads the rest of config.json). kUnsupported or kInvalidArgument for a way
// that is known and a field of it that is not; `where` is its path.
Result<std::optional<QuantizationConfig>> read_quantization_config(const json::object& config);

}  // namespace millrace
