#include "checkpoint/quantized/quantized_weights.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "checkpoint/quantized/coded_matrix.h"
#include "checkpoint/tensor_index.h"

namespace millrace {
namespace {

struct SplitName {
  std::string_view module;  // "model.layers.0.mlp.down_proj"
  std::string_view part;    // "qweight"
};
SplitName split(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {.module = {}, .part = name};
  return {.module = name.substr(0, dot), .part = name.substr(dot + 1)};
}

// Of a quantized matrix, beside the tensor of its codes.
constexpr std::array<std::string_view, 9> kMatrixParts = {
    "qzeros",
    "scales",
    "g_idx",
    "weight_shape",
    "weight_scale",
    "weight_scale_inv",
    "weight_zero_point",
    "weight_g_idx",
    "input_zero_point",
};

// Scales of activations and of KV caches, one for a whole tensor.
constexpr std::array<std::string_view, 6> kActivationParts = {
    "input_scale", "activation_scale", "output_scale", "q_scale", "k_scale", "v_scale"};

bool is_one_of(std::span<const std::string_view> parts, std::string_view part) {
  return std::ranges::find(parts, part) != parts.end();
}

// A quantized matrix, or nothing where the stored tensor is passed on.
using Placement = std::optional<CodedMatrix>;

class QuantizedWeights : public WeightSource {
 public:
  QuantizedWeights(
      std::unique_ptr<WeightSource> stored, TensorIndex index, std::vector<Placement> placements
  )
      : stored_(std::move(stored)), index_(std::move(index)), placements_(std::move(placements)) {}

  std::span<const TensorInfo> tensors() const override { return index_.tensors(); }
  const TensorInfo* find(std::string_view name) const override { return index_.find(name); }

  void read_rows(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, std::span<float> out
  ) const override {
    const Placement& matrix = placements_[index_.position_of(tensor)];
    if (!matrix) return stored_->read_rows(tensor, row_begin, num_rows, out);
    check_rows(tensor, row_begin, num_rows, out.size());
    matrix->read_rows(static_cast<size_t>(row_begin), out);
  }

  CodeForm code_form(const TensorInfo& tensor) const override {
    const Placement& matrix = placements_[index_.position_of(tensor)];
    return matrix ? matrix->code_form() : CodeForm{};
  }

  void read_codes(
      const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, const StoredCodes& out
  ) const override {
    const Placement& matrix = placements_[index_.position_of(tensor)];
    CHECK(matrix.has_value(), "no codes are stored of tensor " + tensor.name);
    check_rows(tensor, row_begin, num_rows, out.codes.size());
    matrix->read_codes(static_cast<size_t>(row_begin), out);
  }

  std::span<const std::byte> raw_bytes(const TensorInfo& tensor) const override {
    if (placements_[index_.position_of(tensor)]) return {};
    return stored_->raw_bytes(tensor);
  }

 private:
  std::unique_ptr<WeightSource> stored_;  // matrices borrow its bytes
  TensorIndex index_;
  std::vector<Placement> placements_;  // by position in index_
};

}  // namespace

Result<std::unique_ptr<WeightSource>> plain_weights(
    std::unique_ptr<WeightSource> stored, const QuantizationConfig& config
) {
  std::unordered_set<std::string_view> modules;
  for (const TensorInfo& tensor : stored->tensors()) {
    if (layout_of(tensor, config.method)) modules.insert(split(tensor.name).module);
  }
  std::vector<TensorInfo> infos;
  std::vector<Placement> placements;
  for (const TensorInfo& tensor : stored->tensors()) {
    const auto [module, part] = split(tensor.name);
    const std::optional<MatrixLayout> layout = layout_of(tensor, config.method);
    if (!layout) {
      if (modules.contains(module) && is_one_of(kMatrixParts, part)) continue;
      if (tensor.num_rows() * tensor.row_length() == 1 && is_one_of(kActivationParts, part)) {
        continue;
      }
      infos.push_back(tensor);
      placements.emplace_back();
      continue;
    }
    const std::string name(module);
    Result<CodedMatrix> matrix = find_matrix(*stored, name, *layout, config);
    if (!matrix) return matrix.error();
    infos.push_back(
        {.name = name + ".weight",
         .storage = StorageType::kF32,
         .shape =
             {static_cast<int64_t>(matrix->num_rows), static_cast<int64_t>(matrix->num_columns)}}
    );
    placements.emplace_back(*matrix);
  }
  Result<TensorIndex> index = TensorIndex::build(std::move(infos));
  if (!index) return index.error();
  return std::unique_ptr<WeightSource>(std::make_unique<QuantizedWeights>(
      std::move(stored), std::move(*index), std::move(placements)
  ));
}

}  // namespace millrace
