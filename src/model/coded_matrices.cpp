#include "model/coded_matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

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

// Codes that have room for both.
CodeForm common_form(const CodeForm& a, const CodeForm& b) {
  return {
      .bits = std::max(a.bits, b.bits),
      .num_inputs = std::min(a.num_inputs, b.num_inputs),
      .is_symmetric = a.is_symmetric && b.is_symmetric && a.bits == b.bits,
      .is_iq4 = a.is_iq4 && b.is_iq4};
}

bool has_room_for(const CodeForm& form, const CodeFormat& format) {
  const bool has_bases = format.has_bases || (form.is_symmetric && form.bits == format.bits);
  const bool has_codes = form.bits <= format.bits && (form.is_iq4 || !format.is_iq4);
  return has_codes && form.num_inputs >= format.num_inputs && has_bases;
}

}  // namespace

std::optional<QuantizedFormat> format_of_codes(const CodeForm& form) {
  for (size_t i = 0; i < kNumCodeFormats; ++i) {
    if (has_room_for(form, kCodeFormats[i])) return format_of_index(i);
  }
  return std::nullopt;
}

Result<CodedMatrices> CodedMatrices::find(const ModelConfig& config, const WeightSource& source) {
  CodedMatrices found;
  for (const ExpectedTensor& expected : expected_tensors_with_roles(config)) {
    const TensorRole role = expected.role;
    const TensorInfo* const stored = source.find(expected.info.name);
    const bool is_embedding = role == TensorRole::kEmbedding;
    const bool is_head = config.tie_word_embeddings ? is_embedding : role == TensorRole::kLmHead;
    if (is_embedding && stored != nullptr) {
      found.embedding_ = format_of_codes(source.code_form(*stored));
    }
    if (is_head && stored != nullptr) {
      found.head_ = format_of_codes(source.code_form(*stored)).value_or(QuantizedFormat::kInt8);
      // Of processes that share a model each has all of the embedding and a part of the head.
      const bool is_whole = !config.num_head_parts;
      found.embedding_is_head_ = config.tie_word_embeddings && is_whole && found.embedding_;
    }
    const bool is_of_layers =
        role == TensorRole::kAttention || role == TensorRole::kMlp || role == TensorRole::kExperts;
    if (!is_of_layers || expected.info.shape.size() != 2) continue;
    if (Result<void> good = check_tensor(expected.info, stored); !good) return good.error();
    Matrix& matrix = found.matrices_[matrix_name(stored->name)];
    const CodeForm form = source.code_form(*stored);
    const bool has_codes = format_of_codes(form).has_value();
    Kept kept = is_plain(stored->storage) ? Kept::kPlain : Kept::kRounded;
    if (has_codes) kept = Kept::kCodes;
    if (matrix.tensor.empty() || kept > matrix.kept) {
      matrix.kept = kept;
      matrix.tensor = stored->name;
    }
    if (has_codes) matrix.form = matrix.form ? common_form(*matrix.form, form) : form;
    matrix.num_weights += stored->num_rows() * stored->row_length();
  }
  int64_t num_weights = 0;
  int64_t num_kept = 0;
  std::string other;
  for (auto& [name, matrix] : found.matrices_) {
    matrix.drop_codes_without_format();
    num_weights += matrix.num_weights;
    if (matrix.kept == Kept::kCodes) {
      num_kept += matrix.num_weights;
    } else if (other.empty()) {
      other = matrix.tensor;
    }
  }
  if (2 * num_kept >= num_weights) return found;
  return invalid_argument(
      fmt::format(
          "tensor '{}' is not stored as codes that --quantization stored keeps "
          "(docs/guides/quantization.md says which), and so are most of the layers' weights",
          other
      ),
      other
  );
}

void CodedMatrices::Matrix::drop_codes_without_format() {
  if (kept == Kept::kCodes && !format_of_codes(*form)) kept = Kept::kRounded;
}

MatrixFormat CodedMatrices::format_of(std::string_view name, DType dtype) const {
  const auto found = matrices_.find(matrix_name(name));
  CHECK(found != matrices_.end(), "a matrix of the layers");
  return found->second.format(dtype);
}

MatrixFormat CodedMatrices::Matrix::format(DType dtype) const {
  switch (kept) {
    case Kept::kCodes:
      return *format_of_codes(*form);
    case Kept::kRounded:
      return QuantizedFormat::kInt8;
    case Kept::kPlain:
      break;
  }
  return dtype;
}

std::string CodedMatrices::names() const {
  std::set<std::string_view> names;
  for (const auto& [name, matrix] : matrices_) {
    if (matrix.kept == Kept::kCodes) names.insert(name_of(*format_of_codes(*matrix.form)));
  }
  std::string text;
  for (const std::string_view name : names) {
    text += text.empty() ? "" : ", ";
    text += name;
  }
  return text;
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
        "{} of {} matrices are kept as {}, not as they are stored", count, matrices_.size(), format
    );
  }
  return text;
}

Result<void> CodedMatrices::make_room_for(const CodedMatrices& other) {
  embedding_is_head_ = embedding_is_head_ && other.embedding_is_head_;
  for (auto& [name, matrix] : matrices_) {
    const Matrix& of_other = other.matrices_.at(name);
    if (of_other.kept != matrix.kept) {
      return invalid_argument(
          fmt::format("tensor '{}' begins within a group that shares a scale", of_other.tensor),
          of_other.tensor
      );
    }
    if (matrix.kept == Kept::kCodes) matrix.form = common_form(*matrix.form, *of_other.form);
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
    const Result<CodedMatrices> of_rank = CodedMatrices::find(*part, **weights_of_rank);
    const Result<void> same = of_rank ? whole->make_room_for(*of_rank) : of_rank.error();
    if (same) continue;
    return Error{
        same.error().code,
        fmt::format("rank {} of {}: {}", rank, num_ranks, same.error().message),
        same.error().where};
  }
  return whole;
}

}  // namespace millrace
