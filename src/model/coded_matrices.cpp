#include "model/coded_matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/check.h"
#include "model/shard.h"
#include "model/weight_names.h"

namespace millrace {
namespace {

void replace(std::string& name, std::string_view part, std::string_view by) {
  const size_t place = name.find(part);
  if (place != std::string::npos) name.replace(place, part.size(), by);
}

// What the names of all tensors have in common that are kept as one matrix.
std::string matrix_name(std::string_view tensor) {
  constexpr std::string_view kExperts = ".experts.";
  std::string name(tensor);
  for (const char* const part : {".q_proj.", ".k_proj.", ".v_proj."}) replace(name, part, ".qkv.");
  for (const char* const part : {".gate_proj.", ".up_proj."}) replace(name, part, ".gate_up.");
  const size_t experts = name.find(kExperts);
  if (experts != std::string::npos) {
    const size_t number = experts + kExperts.size();
    name.erase(number, name.find('.', number) - number);
  }
  return name;
}

bool is_plain(StorageType storage) {
  return storage == StorageType::kF32 || storage == StorageType::kF16 ||
         storage == StorageType::kBF16;
}

}  // namespace

Result<CodedMatrices> CodedMatrices::find(const ModelConfig& config, const WeightSource& source) {
  CodedMatrices found;
  int64_t num_weights = 0;
  int64_t num_others = 0;
  const TensorInfo* first_other = nullptr;
  for (const ExpectedTensor& expected : expected_tensors_with_roles(config)) {
    const TensorRole role = expected.role;
    const bool is_of_layers =
        role == TensorRole::kAttention || role == TensorRole::kMlp || role == TensorRole::kExperts;
    if (!is_of_layers || expected.info.shape.size() != 2) continue;
    const TensorInfo* const tensor = source.find(expected.info.name);
    if (Result<void> good = check_tensor(expected.info, tensor); !good) return good.error();
    Matrix& matrix = found.matrices_[matrix_name(tensor->name)];
    const size_t num_inputs = source.scale_inputs(*tensor);
    Kept kept = is_plain(tensor->storage) ? Kept::kPlain : Kept::kRounded;
    if (num_inputs > 0) kept = Kept::kCodes;
    if (matrix.tensor.empty() || kept > matrix.kept) matrix = {kept, tensor->name};
    const int64_t size = tensor->num_rows() * tensor->row_length();
    num_weights += size;
    if (num_inputs == 0) {
      num_others += size;
      if (first_other == nullptr) first_other = tensor;
    } else if (num_inputs < scale_inputs(found.format_)) {
      found.format_ = QuantizedFormat::kUint4By32;
    }
  }
  if (2 * num_others <= num_weights) return found;
  return invalid_argument(
      fmt::format(
          "tensor '{}' is not stored in 4 bits with a scale for each 32 neighbouring inputs, or a "
          "multiple of that, and so are most of the layers' weights: uint4 keeps no others",
          first_other->name
      ),
      first_other->name
  );
}

MatrixFormat CodedMatrices::format_of(std::string_view name, const WeightFormat& format) const {
  const auto found = matrices_.find(matrix_name(name));
  CHECK(found != matrices_.end(), "a matrix of the layers");
  switch (found->second.kept) {
    case Kept::kCodes:
      return format.of_layers();
    case Kept::kRounded:
      return QuantizedFormat::kInt8;
    case Kept::kPlain:
      break;
  }
  return format.dtype;
}

std::string CodedMatrices::others(DType dtype) const {
  std::map<std::string_view, size_t> counts;
  for (const auto& [name, matrix] : matrices_) {
    if (matrix.kept == Kept::kRounded) ++counts[name_of(QuantizedFormat::kInt8)];
    if (matrix.kept == Kept::kPlain) ++counts[name_of(dtype)];
  }
  std::string text;
  for (const auto& [format, count] : counts) {
    text += text.empty() ? "" : ", ";
    text += fmt::format(
        "{} of {} matrices are stored otherwise, and kept as {}", count, matrices_.size(), format
    );
  }
  return text;
}

Result<void> CodedMatrices::check_same(const CodedMatrices& other) const {
  for (const auto& [name, matrix] : matrices_) {
    const Matrix& of_other = other.matrices_.at(name);
    if (of_other.kept == matrix.kept) continue;
    return invalid_argument(
        fmt::format("tensor '{}' begins within a group that shares a scale", of_other.tensor),
        of_other.tensor
    );
  }
  return {};
}

Result<CodedMatrices> coded_matrices_of_ranks(
    const ModelConfig& config, const WeightSource& weights, int32_t num_ranks
) {
  Result<CodedMatrices> whole = CodedMatrices::find(config, weights);
  if (!whole || num_ranks == 1) return whole;
  for (int32_t rank = 0; rank < num_ranks; ++rank) {
    const ModelShard shard = {.rank = rank, .world_size = num_ranks};
    const Result<ModelConfig> part = shard_config(config, shard);
    if (!part) return part.error();
    const auto weights_of_rank = ShardedWeights::make(config, shard, weights);
    if (!weights_of_rank) return weights_of_rank.error();
    Result<CodedMatrices> of_rank = CodedMatrices::find(*part, **weights_of_rank);
    const Result<void> same = of_rank ? whole->check_same(*of_rank) : of_rank.error();
    if (!same) {
      const Error& error = same.error();
      return Error{
          error.code,
          fmt::format("rank {} of {}: {}", rank, num_ranks, error.message),
          error.where};
    }
    // What has groups of 32 inputs in one part has them in all.
    if (scale_inputs(of_rank->format()) < scale_inputs(whole->format())) whole = of_rank;
  }
  return whole;
}

}  // namespace millrace
