#include "checkpoint/quantized/quantization_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fields.h"
#include "checkpoint/printable.h"

namespace millrace {
namespace {

constexpr IntRange kGroup{.min = -1, .max = 1 << 24};
constexpr IntRange kBlock{.min = 1, .max = 1 << 24};

struct NamedMethod {
  std::string_view name;
  QuantizationMethod method;
};
constexpr std::array kMethods = {
    NamedMethod{"awq", QuantizationMethod::kAwq},
    NamedMethod{"gptq", QuantizationMethod::kGptq},
    NamedMethod{"fp8", QuantizationMethod::kFp8},
    NamedMethod{"compressed-tensors", QuantizationMethod::kCompressedTensors},
};

// Which of a few words a field is, whatever its case; absent is the first.
size_t read_word(
    JsonFields& fields, std::string_view key, std::span<const std::string_view> words
) {
  std::string word = fields.string(key).value_or(std::string(words.front()));
  std::ranges::transform(word, word.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  const auto found = std::ranges::find(words, word);
  if (found != words.end()) return static_cast<size_t>(found - words.begin());
  std::string supported(words.front());
  for (const std::string_view other : words.subspan(1)) supported.append(", ").append(other);
  fields.refuse(
      ErrorCode::kUnsupported,
      key,
      fmt::format("{} '{}' is not supported ({})", key, printable(word), supported)
  );
  return 0;
}

// Inputs that share a scale; -1 in the file, 0 here: all of them.
int64_t read_group_size(JsonFields& fields, std::string_view key = "group_size") {
  const int64_t size = fields.integer(key, kGroup).value_or(-1);
  if (size == 0) fields.refuse(ErrorCode::kInvalidArgument, key, "a group of 0 inputs");
  return std::max<int64_t>(size, 0);
}

// Older files call the two w_bit and q_group_size.
void read_awq(JsonFields& fields, QuantizationConfig& config) {
  const std::string_view bits_key = fields.find("w_bit") != nullptr ? "w_bit" : "bits";
  const int64_t bits = fields.integer(bits_key, {}).value_or(4);
  if (bits != 4) {
    fields.refuse(
        ErrorCode::kUnsupported, bits_key, fmt::format("AWQ of {} bits is not supported (4)", bits)
    );
  }
  constexpr std::array<std::string_view, 1> kVersions = {"gemm"};
  read_word(fields, "version", kVersions);
  const bool is_old = fields.find("q_group_size") != nullptr;
  config.group_size = read_group_size(fields, is_old ? "q_group_size" : "group_size");
}

void read_gptq(JsonFields& fields, QuantizationConfig& config) {
  const int64_t bits = fields.integer("bits", {}).value_or(4);
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8) {
    fields.refuse(
        ErrorCode::kUnsupported,
        "bits",
        fmt::format("GPTQ of {} bits is not supported (2, 3, 4, 8)", bits)
    );
  }
  config.bits = static_cast<int>(bits);
  config.group_size = read_group_size(fields);
  constexpr std::array<std::string_view, 2> kFormats = {"gptq", "gptq_v2"};
  const bool is_new = fields.find("checkpoint_format") != nullptr;
  config.zeros_are_one_less =
      read_word(fields, is_new ? "checkpoint_format" : "format", kFormats) == 0;
  constexpr std::array<std::string_view, 1> kWords = {"int32"};
  read_word(fields, "pack_dtype", kWords);
}

void read_block(JsonFields& fields, std::string_view key, QuantizationConfig& config) {
  if (fields.find(key) == nullptr) return;
  const std::vector<int64_t> block = fields.integers(key, kBlock);
  if (block.size() != 2) {
    fields.refuse(
        ErrorCode::kInvalidArgument, key, fmt::format("{} must be two integers: [128, 128]", key)
    );
    return;
  }
  config.block_rows = block[0];
  config.block_columns = block[1];
}

void read_fp8(JsonFields& fields, QuantizationConfig& config) {
  constexpr std::array<std::string_view, 2> kFormats = {"e4m3", "float8_e4m3fn"};
  read_word(fields, "fmt", kFormats);
  read_block(fields, "weight_block_size", config);
}

// "128x128", as some write a block. [0, 0]: it is not that.
std::array<int64_t, 2> block_of_text(const json::string& text) {
  std::array<int64_t, 2> block = {0, 0};
  const char* const end = text.data() + text.size();
  const auto [middle, error] = std::from_chars(text.data(), end, block[0]);
  if (error != std::errc() || middle == end || *middle != 'x') return {0, 0};
  const auto [rest, second_error] = std::from_chars(middle + 1, end, block[1]);
  const bool is_good = second_error == std::errc() && rest == end;
  return is_good && block[0] > 0 && block[1] > 0 ? block : std::array<int64_t, 2>{0, 0};
}

// What one group says of its weights: {"num_bits": 8, "strategy": "block", "block_structure": [128,
// 128]}.
void read_weight_scheme(JsonFields& scheme, bool is_packed, QuantizationConfig& config) {
  if (is_packed) {
    config.bits = static_cast<int>(scheme.integer("num_bits", {.min = 1, .max = 64}).value_or(4));
    const std::string type = scheme.string("type").value_or("int");
    if ((config.bits != 4 && config.bits != 8) || type != "int") {
      scheme.refuse(
          ErrorCode::kUnsupported,
          "num_bits",
          fmt::format(
              "packed weights of {} bits and type '{}' are not supported (4, 8; int)",
              config.bits,
              printable(type)
          )
      );
    }
  }
  const int64_t group_size = read_group_size(scheme);
  if (group_size > 0 && std::ranges::count(config.group_sizes, group_size) == 0) {
    config.group_sizes.push_back(group_size);
  }
  const json::value* block = scheme.find("block_structure");
  if (block == nullptr) return;
  if (const json::string* text = block->if_string()) {
    const auto [rows, columns] = block_of_text(*text);
    config.block_rows = rows;
    config.block_columns = columns;
  } else {
    read_block(scheme, "block_structure", config);
  }
  if (config.block_rows == 0) {
    scheme.refuse(ErrorCode::kInvalidArgument, "block_structure", "no block of rows and columns");
  }
}

// {"group_0": {"weights": {...}}}: what shapes leave open, the sizes of groups of inputs, and
// blocks, of which all must have the same.
void read_config_groups(JsonFields& fields, bool is_packed, QuantizationConfig& config) {
  const json::object* groups = fields.object("config_groups");
  if (groups == nullptr) return;
  for (const auto& [name, value] : *groups) {
    const json::object* group = value.if_object();
    const json::value* weights = group == nullptr ? nullptr : group->if_contains("weights");
    if (weights == nullptr || !weights->is_object()) continue;
    JsonFields scheme(weights->get_object());
    QuantizationConfig found = config;
    read_weight_scheme(scheme, is_packed, found);
    if (scheme.error()) {
      fields.refuse(scheme.error()->code, "config_groups", scheme.error()->message);
    }
    if (config.block_rows != 0 &&
        (found.block_rows != config.block_rows || found.block_columns != config.block_columns)) {
      fields.refuse(
          ErrorCode::kUnsupported, "config_groups", "blocks of several sizes are not supported"
      );
    }
    config = found;
  }
}

void refuse_sparsity(JsonFields& fields) {
  const json::object* sparsity = fields.object("sparsity_config");
  if (sparsity == nullptr || sparsity->empty()) return;
  const json::value* format = sparsity->if_contains("format");
  if (format != nullptr && *format == "dense") return;
  fields.refuse(
      ErrorCode::kUnsupported, "sparsity_config", "sparse weights are not supported (dense)"
  );
}

// Rotations that must be applied to activations while the model runs.
void refuse_transforms(JsonFields& fields) {
  const json::object* transforms = fields.object("transform_config");
  const json::value* groups =
      transforms == nullptr ? nullptr : transforms->if_contains("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->get_object().empty()) return;
  fields.refuse(
      ErrorCode::kUnsupported, "transform_config", "transforms of activations are not supported"
  );
}

void read_compressed_tensors(JsonFields& fields, QuantizationConfig& config) {
  constexpr std::array<std::string_view, 5> kFormats = {
      "pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "mixed-precision"};
  const bool is_packed = read_word(fields, "format", kFormats) == 0;
  read_config_groups(fields, is_packed, config);
  refuse_sparsity(fields);
  refuse_transforms(fields);
}

}  // namespace

Result<std::optional<QuantizationConfig>> read_quantization_config(const json::object& config) {
  const bool is_old = !config.contains("quantization_config");
  const std::string_view key = is_old ? "compression_config" : "quantization_config";
  const json::value* value = config.if_contains(key);
  const json::object* object = value == nullptr ? nullptr : value->if_object();
  const json::value* stated = object == nullptr ? nullptr : object->if_contains("quant_method");
  const json::string* name = stated == nullptr ? nullptr : stated->if_string();
  if (name == nullptr) return std::optional<QuantizationConfig>();
  const auto* const known = std::ranges::find_if(kMethods, [&](const NamedMethod& method) {
    return method.name == std::string_view(name->data(), name->size());
  });
  if (known == kMethods.end()) return std::optional<QuantizationConfig>();

  JsonFields fields(*object, std::string(key) + ".");
  QuantizationConfig found;
  found.method = known->method;
  switch (known->method) {
    case QuantizationMethod::kAwq:
      read_awq(fields, found);
      break;
    case QuantizationMethod::kGptq:
      read_gptq(fields, found);
      break;
    case QuantizationMethod::kFp8:
      read_fp8(fields, found);
      break;
    case QuantizationMethod::kCompressedTensors:
      read_compressed_tensors(fields, found);
      break;
  }
  if (fields.error()) return *fields.error();
  return std::optional(found);
}

}  // namespace millrace
