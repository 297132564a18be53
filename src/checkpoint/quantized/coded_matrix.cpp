#include "checkpoint/quantized/coded_matrix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/math.h"
#include "checkpoint/blocks/block_bytes.h"
#include "checkpoint/printable.h"

namespace millrace {
namespace {

size_t element_at(std::span<const std::byte> int32s, size_t place) {
  return blocks::load_u32(int32s.data() + 4 * place);
}

// The tensors of one matrix, looked up by the last parts of their names and checked.
class Parts {
 public:
  Parts(const WeightSource& stored, const std::string& module) : stored_(stored), module_(module) {}

  std::string name(std::string_view part) const { return fmt::format("{}.{}", module_, part); }
  const TensorInfo* find(std::string_view part) const { return stored_.find(name(part)); }
  std::span<const std::byte> bytes(const TensorInfo& tensor) const {
    return stored_.raw_bytes(tensor);
  }

  Result<const TensorInfo*> require(std::string_view part) const {
    if (const TensorInfo* tensor = find(part)) return tensor;
    return not_found(
        fmt::format(
            "tensor '{}' is missing, without which '{}' cannot be read",
            printable(name(part)),
            printable(module_)
        ),
        printable(name(part))
    );
  }

  // A tensor of 32-bit integers of that shape.
  Result<const TensorInfo*> require_int32(std::string_view part, const std::vector<int64_t>& shape)
      const {
    const Result<const TensorInfo*> tensor = require(part);
    if (!tensor) return tensor;
    if ((*tensor)->storage_name != "I32") return wrong_type(**tensor, "I32");
    if ((*tensor)->shape != shape) return wrong_shape(**tensor, format_shape(shape));
    return tensor;
  }

  // Two dimensions of 32-bit integers.
  Result<const TensorInfo*> require_words(std::string_view part) const {
    const Result<const TensorInfo*> tensor = require(part);
    if (!tensor) return tensor;
    if ((*tensor)->storage_name != "I32") return wrong_type(**tensor, "I32");
    const std::vector<int64_t>& shape = (*tensor)->shape;
    if (shape.size() != 2 || shape[0] < 1 || shape[1] < 1) {
      return wrong_shape(**tensor, "two dimensions");
    }
    return tensor;
  }

  Result<const TensorInfo*> require_scales(std::string_view part) const {
    const Result<const TensorInfo*> tensor = require(part);
    if (!tensor) return tensor;
    const StorageType storage = (*tensor)->storage;
    const bool is_known = storage == StorageType::kF16 || storage == StorageType::kBF16 ||
                          storage == StorageType::kF32;
    if (!is_known) return wrong_type(**tensor, "F16, BF16 or F32");
    return tensor;
  }

  static Error wrong_type(const TensorInfo& tensor, std::string_view expected) {
    const std::string found = tensor.storage_name.empty() ? "a float type" : tensor.storage_name;
    return unsupported(
        fmt::format("tensor '{}' is of {}: expected {}", printable(tensor.name), found, expected),
        printable(tensor.name)
    );
  }
  static Error wrong_shape(const TensorInfo& tensor, std::string_view expected) {
    return invalid_argument(
        fmt::format(
            "tensor '{}' has shape {}: expected {}",
            printable(tensor.name),
            format_shape(tensor.shape),
            expected
        ),
        printable(tensor.name)
    );
  }

 private:
  const WeightSource& stored_;
  const std::string& module_;
};

// Of compressed-tensors, whose readers take -1 for all inputs as no list.
constexpr std::string_view kGroupIndexOrNone = "weight_g_idx";

// Inputs' groups as the file lists them, if it does. Groups are of neighbours where `part` is
// absent, or 0 for all inputs though there are several groups (files of GPTQ whose readers look at
// it only with desc_act).
Result<void> set_group_of_input(const Parts& parts, std::string_view part, CodedMatrix& matrix) {
  if (parts.find(part) == nullptr) return {};
  const auto num_columns = static_cast<int64_t>(matrix.num_columns);
  const Result<const TensorInfo*> index = parts.require_int32(part, {num_columns});
  if (!index) return index.error();
  const std::span<const std::byte> groups = parts.bytes(**index);
  const bool is_none =
      std::ranges::all_of(groups, [](std::byte x) { return x == std::byte{0xFF}; });
  if (part == kGroupIndexOrNone && is_none) return {};
  bool is_in_order = true;
  bool is_zero = true;
  for (size_t k = 0; k < matrix.num_columns; ++k) {
    const size_t group = element_at(groups, k);
    if (group >= matrix.num_groups) {
      return invalid_argument(
          fmt::format(
              "tensor '{}': input {} is of group {}, and there are {}",
              printable(parts.name(part)),
              k,
              static_cast<int32_t>(group),
              matrix.num_groups
          ),
          printable(parts.name(part))
      );
    }
    is_in_order = is_in_order && group == k / matrix.group_size;
    is_zero = is_zero && group == 0;
  }
  if (!is_in_order && !is_zero) matrix.group_of_input = groups;
  return {};
}

// AWQ and GPTQ: scales [groups, rows] and zero points [groups, words of rows]. `zeros`: how those
// are stored; only their bytes and strides are set here.
Result<void> set_transposed_scales(const Parts& parts, BitFields zeros, CodedMatrix& matrix) {
  const Result<const TensorInfo*> scales = parts.require_scales("scales");
  if (!scales) return scales.error();
  const auto num_rows = static_cast<int64_t>(matrix.num_rows);
  if ((*scales)->shape.size() != 2 || (*scales)->shape[0] < 1 || (*scales)->shape[1] != num_rows) {
    return Parts::wrong_shape(**scales, fmt::format("[groups, {}]", num_rows));
  }
  matrix.num_groups = static_cast<size_t>((*scales)->shape[0]);
  matrix.scales = {
      .bytes = parts.bytes(**scales),
      .storage = (*scales)->storage,
      .rows_per_scale = 1,
      .row_stride = 1,
      .group_stride = matrix.num_rows};
  const size_t words = BitFields::words_of(matrix.num_rows, zeros.bits);
  const Result<const TensorInfo*> stored =
      parts.require_int32("qzeros", {(*scales)->shape[0], static_cast<int64_t>(words)});
  if (!stored) return stored.error();
  zeros.words = parts.bytes(**stored);
  zeros.along = BitFields::Along::kColumn;
  zeros.string_stride = words;
  matrix.zeros = zeros;
  return {};
}

// Of AWQ and GPTQ, by the configuration; a single group has all inputs.
size_t group_size_of(const QuantizationConfig& config, const CodedMatrix& matrix) {
  const bool has_all = config.group_size == 0 || matrix.num_groups == 1;
  return has_all ? matrix.num_columns : static_cast<size_t>(config.group_size);
}

// That groups of so many inputs are as many as there are scales.
Result<void> check_groups(const Parts& parts, const CodedMatrix& matrix) {
  const size_t num_groups = div_ceil(matrix.num_columns, matrix.group_size);
  if (num_groups == matrix.num_groups) return {};
  return Parts::wrong_shape(
      **parts.require("scales"),
      fmt::format("{} groups of {} inputs", num_groups, matrix.group_size)
  );
}

Result<CodedMatrix> find_awq(const Parts& parts, const QuantizationConfig& config) {
  constexpr int kBits = 4;
  constexpr size_t kPerWord = 8;
  const Result<const TensorInfo*> codes = parts.require_words("qweight");
  if (!codes) return codes.error();
  const auto words = static_cast<size_t>((*codes)->shape[1]);
  CodedMatrix matrix;
  matrix.num_rows = words * kPerWord;
  matrix.num_columns = static_cast<size_t>((*codes)->shape[0]);
  matrix.codes = BitFields{
      .words = parts.bytes(**codes),
      .bits = kBits,
      .along = BitFields::Along::kColumn,
      .word_stride = 1,
      .string_stride = words,
      .is_awq_order = true};
  const Result<void> set =
      set_transposed_scales(parts, {.bits = kBits, .is_awq_order = true}, matrix);
  if (!set) return set.error();
  matrix.group_size = group_size_of(config, matrix);
  const Result<void> grouped = check_groups(parts, matrix);
  if (!grouped) return grouped.error();
  return matrix;
}

// The bits of a code of which `length` take `words` words: `likely` if that fits. 0: none does.
int bits_of(size_t length, size_t words, int likely) {
  if (BitFields::words_of(length, likely) == words) return likely;
  for (const int bits : {2, 3, 4, 8}) {
    if (BitFields::words_of(length, bits) == words) return bits;
  }
  return 0;
}

Result<CodedMatrix> find_gptq(const Parts& parts, const QuantizationConfig& config) {
  const Result<const TensorInfo*> codes = parts.require_words("qweight");
  if (!codes) return codes.error();
  const auto words = static_cast<size_t>((*codes)->shape[0]);
  CodedMatrix matrix;
  matrix.num_rows = static_cast<size_t>((*codes)->shape[1]);
  matrix.num_columns = words * 32 / static_cast<size_t>(config.bits);
  int bits = config.bits;
  // Rules for single matrices ("dynamic") may give them other bits; inputs are counted by g_idx.
  const TensorInfo* const index = parts.find("g_idx");
  if (index != nullptr && index->shape.size() == 1 && index->shape[0] > 0) {
    matrix.num_columns = static_cast<size_t>(index->shape[0]);
    bits = bits_of(matrix.num_columns, words, config.bits);
  }
  if (bits == 0) {
    return Parts::wrong_shape(
        **codes, fmt::format("words of {} codes of 2, 3, 4 or 8 bits", matrix.num_columns)
    );
  }
  matrix.codes = BitFields{
      .words = parts.bytes(**codes),
      .bits = bits,
      .word_stride = matrix.num_rows,
      .string_stride = 1};
  const Result<void> set = set_transposed_scales(
      parts, {.bits = bits, .is_one_less = config.zeros_are_one_less}, matrix
  );
  if (!set) return set.error();
  matrix.group_size = group_size_of(config, matrix);
  const Result<void> listed = set_group_of_input(parts, "g_idx", matrix);
  if (!listed) return listed.error();
  if (!matrix.group_of_input.empty()) return matrix;
  const Result<void> grouped = check_groups(parts, matrix);
  if (!grouped) return grouped.error();
  return matrix;
}

// Of rows that have `num_groups` scales each, at least one; none: no size that is stated fits, or
// more than one. The last group may be short, so that the size does not follow from their number.
std::optional<size_t> group_size_of_scales(
    const QuantizationConfig& config, const CodedMatrix& matrix, size_t num_groups
) {
  if (num_groups == 1) return matrix.num_columns;
  if (config.group_sizes.empty()) {
    if (matrix.num_columns % num_groups != 0) return std::nullopt;
    return matrix.num_columns / num_groups;
  }
  std::optional<size_t> found;
  for (const int64_t stated : config.group_sizes) {
    const auto size = static_cast<size_t>(stated);
    if (div_ceil(matrix.num_columns, size) != num_groups) continue;
    if (found) return std::nullopt;
    found = size;
  }
  return found;
}

// "groups", "groups of 32 or 128 inputs".
std::string name_groups(const QuantizationConfig& config) {
  std::string sizes;
  for (const int64_t size : config.group_sizes) {
    sizes += fmt::format("{}{}", sizes.empty() ? " of " : " or ", size);
  }
  return sizes.empty() ? "groups" : "groups" + sizes + " inputs";
}

// compressed-tensors and FP8: scales of the whole matrix, of rows, of groups within rows, or of
// blocks.
Result<void> set_scales(
    const Parts& parts, std::string_view part, const QuantizationConfig& config, CodedMatrix& matrix
) {
  const Result<const TensorInfo*> scales = parts.require_scales(part);
  if (!scales) return scales.error();
  std::vector<int64_t> shape = (*scales)->shape;
  if (shape.empty()) shape = {1};
  if (shape.size() == 1) shape.push_back(1);
  const auto rows = static_cast<size_t>(shape[0]);
  const auto groups = static_cast<size_t>(shape[1]);
  size_t rows_per_scale = 1;
  std::optional<size_t> group_size;
  bool fits = shape.size() == 2 && rows > 0 && groups > 0;
  const auto is_blocks = [&] {
    return config.block_rows > 0 &&
           div_ceil(matrix.num_rows, static_cast<size_t>(config.block_rows)) == rows &&
           div_ceil(matrix.num_columns, static_cast<size_t>(config.block_columns)) == groups;
  };
  if (fits && is_blocks()) {
    rows_per_scale = static_cast<size_t>(config.block_rows);
    group_size = static_cast<size_t>(config.block_columns);
  } else if (fits) {
    group_size = group_size_of_scales(config, matrix, groups);
    fits = (rows == matrix.num_rows || (rows == 1 && groups == 1)) && group_size;
  }
  if (!fits) {
    return Parts::wrong_shape(
        **scales,
        fmt::format(
            "scales of all, of rows, of {} or of the blocks of a matrix [{}, {}]",
            name_groups(config),
            matrix.num_rows,
            matrix.num_columns
        )
    );
  }
  matrix.num_groups = groups;
  matrix.group_size = *group_size;
  matrix.scales = {
      .bytes = parts.bytes(**scales),
      .storage = (*scales)->storage,
      .rows_per_scale = rows_per_scale,
      .row_stride = rows == 1 ? 0 : groups,
      .group_stride = 1};
  return {};
}

Result<CodedMatrix> find_packed(const Parts& parts, const QuantizationConfig& config) {
  const Result<const TensorInfo*> codes = parts.require_words("weight_packed");
  if (!codes) return codes.error();
  const Result<const TensorInfo*> stated = parts.require("weight_shape");
  if (!stated) return stated.error();
  if ((*stated)->storage_name != "I64") return Parts::wrong_type(**stated, "I64");
  if ((*stated)->shape != std::vector<int64_t>{2}) return Parts::wrong_shape(**stated, "[2]");
  std::array<int64_t, 2> shape;
  std::memcpy(shape.data(), parts.bytes(**stated).data(), sizeof shape);
  const auto words = static_cast<size_t>((*codes)->shape[1]);
  const bool is_sane = shape[1] > 0 && shape[1] <= (*codes)->shape[1] * 32;
  const int bits = is_sane ? bits_of(static_cast<size_t>(shape[1]), words, config.bits) : 0;
  if (shape[0] != (*codes)->shape[0] || (bits != 4 && bits != 8)) {
    return Parts::wrong_shape(
        **codes,
        fmt::format(
            "{} rows of {} codes of 4 or 8 bits, as weight_shape has it", shape[0], shape[1]
        )
    );
  }
  CodedMatrix matrix;
  matrix.num_rows = static_cast<size_t>(shape[0]);
  matrix.num_columns = static_cast<size_t>(shape[1]);
  matrix.codes = BitFields{
      .words = parts.bytes(**codes), .bits = bits, .word_stride = 1, .string_stride = words};
  matrix.zero = static_cast<float>(1 << (bits - 1));
  const Result<void> scaled = set_scales(parts, "weight_scale", config, matrix);
  if (!scaled) return scaled.error();
  if (parts.find("weight_zero_point") != nullptr) {
    const auto groups = static_cast<int64_t>(matrix.num_groups);
    const auto rows = static_cast<int64_t>(BitFields::words_of(matrix.num_rows, bits));
    const Result<const TensorInfo*> zeros =
        parts.require_int32("weight_zero_point", {rows, groups});
    if (!zeros) return zeros.error();
    matrix.zeros = BitFields{
        .words = parts.bytes(**zeros),
        .bits = bits,
        .along = BitFields::Along::kColumn,
        .word_stride = matrix.num_groups,
        .string_stride = 1};
  }
  const Result<void> grouped = set_group_of_input(parts, kGroupIndexOrNone, matrix);
  if (!grouped) return grouped.error();
  return matrix;
}

Result<CodedMatrix> find_bytes(const Parts& parts, const QuantizationConfig& config) {
  const TensorInfo& codes = **parts.require("weight");
  if (codes.shape.size() != 2 || codes.shape[0] < 1 || codes.shape[1] < 1) {
    return Parts::wrong_shape(codes, "two dimensions");
  }
  CodedMatrix matrix;
  matrix.num_rows = static_cast<size_t>(codes.shape[0]);
  matrix.num_columns = static_cast<size_t>(codes.shape[1]);
  matrix.codes = ByteCodes{
      .bytes = parts.bytes(codes),
      .num_columns = matrix.num_columns,
      .values = codes.storage_name == "I8" ? &kInt8Values : &kFloat8Values};
  const bool is_inverse_named = parts.find("weight_scale_inv") != nullptr;  // it multiplies as well
  if (is_inverse_named && parts.find("weight_scale") != nullptr) {
    return invalid_argument(
        fmt::format(
            "tensor '{}' has both '{}' and '{}': expected one of them",
            printable(codes.name),
            printable(parts.name("weight_scale")),
            printable(parts.name("weight_scale_inv"))
        ),
        printable(parts.name("weight_scale_inv"))
    );
  }
  const std::string_view scales = is_inverse_named ? "weight_scale_inv" : "weight_scale";
  const Result<void> scaled = set_scales(parts, scales, config, matrix);
  if (!scaled) return scaled.error();
  if (const TensorInfo* zeros = parts.find("weight_zero_point")) {
    const std::vector<int64_t>& shape = parts.find(scales)->shape;
    if (zeros->storage_name != "I8") return Parts::wrong_type(*zeros, "I8");
    if (zeros->shape != shape || matrix.scales.row_stride == 0 ||
        matrix.scales.rows_per_scale != 1) {
      return Parts::wrong_shape(*zeros, format_shape(shape) + ", of rows");
    }
    matrix.zeros = ByteCodes{
        .bytes = parts.bytes(*zeros), .num_columns = matrix.num_groups, .values = &kInt8Values};
  }
  const Result<void> grouped = set_group_of_input(parts, kGroupIndexOrNone, matrix);
  if (!grouped) return grouped.error();
  return matrix;
}

}  // namespace

std::optional<MatrixLayout> layout_of(const TensorInfo& tensor, QuantizationMethod method) {
  const std::string_view name = tensor.name;
  switch (method) {
    case QuantizationMethod::kAwq:
      if (name.ends_with(".qweight")) return MatrixLayout::kAwq;
      break;
    case QuantizationMethod::kGptq:
      if (name.ends_with(".qweight")) return MatrixLayout::kGptq;
      break;
    case QuantizationMethod::kCompressedTensors:
      if (name.ends_with(".weight_packed")) return MatrixLayout::kPacked;
      if (name.ends_with(".weight") && tensor.storage_name == "I8") return MatrixLayout::kBytes;
      [[fallthrough]];
    case QuantizationMethod::kFp8:
      if (name.ends_with(".weight") && tensor.storage_name == "F8_E4M3") {
        return MatrixLayout::kBytes;
      }
      break;
  }
  return std::nullopt;
}

Result<CodedMatrix> find_matrix(
    const WeightSource& stored,
    const std::string& module,
    MatrixLayout layout,
    const QuantizationConfig& config
) {
  const Parts parts(stored, module);
  switch (layout) {
    case MatrixLayout::kAwq:
      return find_awq(parts, config);
    case MatrixLayout::kGptq:
      return find_gptq(parts, config);
    case MatrixLayout::kPacked:
      return find_packed(parts, config);
    case MatrixLayout::kBytes:
      break;
  }
  return find_bytes(parts, config);
}

}  // namespace millrace
