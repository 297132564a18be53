// Which matrices of a model's layers, and whether its embedding and its output head, other tools
// have stored as codes, and how all of them are kept with --quantization stored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "checkpoint/weight_source.h"
#include "kernels/quantized/weight_matrix.h"
#include "model/config.h"

namespace millrace {

// The format of the fewest bits that keeps such codes as they are; none: no format does.
std::optional<QuantizedFormat> format_of_codes(const CodeForm& form);

// Matrices that are multiplied as one (q, k and v; gate and up; those of all experts of a layer)
// are kept as one.
class CodedMatrices {
 public:
  // kNotFound for a matrix that is missing. kInvalidArgument where less than half of the layers'
  // weights are of matrices that keep their codes (WeightSource::code_form); `where` is a tensor of
  // one that does not.
  static Result<CodedMatrices> find(const ModelConfig& config, const WeightSource& source);

  // What keeps the matrix that the tensor `name` is a part of: the format of codes that has room
  // for those of all its tensors; `dtype`, if one is stored as plain numbers; else int8, as
  // where codes of 8 bits stand beside others. REQUIRES: a matrix of the layers that is
  // no router.
  MatrixFormat format_of(std::string_view name, DType dtype) const;

  // Of the output head, whether it is the embedding or not: what keeps its codes, else int8.
  QuantizedFormat format_of_head() const { return head_; }
  // Of the embedding, whose rows are read out of its codes; none: it is not quantized.
  std::optional<QuantizedFormat> format_of_embedding() const { return embedding_; }
  // Whether those are the head's codes too, kept once for both.
  bool embedding_is_head() const { return embedding_is_head_; }

  // "uint4", or "uint4, uint6": what keeps codes of layers.
  std::string names() const;

  // "12 of 80 matrices are kept as int8, not as they are stored"; empty: none is.
  std::string others(DType dtype) const;

  // Also gives each matrix room for the codes that a part of it has in `other`, the same model's.
  // kInvalidArgument naming a tensor of which `other` keeps no codes, or plain numbers, where these
  // are kept otherwise.
  Result<void> make_room_for(const CodedMatrices& other);

 private:
  enum class Kept { kCodes, kRounded, kPlain };  // the last of its tensors decides
  struct Matrix {
    Kept kept = Kept::kCodes;
    std::optional<CodeForm> form = {};  // of the codes of all its tensors
    std::string tensor;                 // the one that decided
    int64_t num_weights = 0;

    MatrixFormat format(DType dtype) const;
    // Codes of several tensors that no format has room for are rounded.
    void drop_codes_without_format();
  };

  std::map<std::string, Matrix> matrices_;  // by what their tensors' names have in common
  QuantizedFormat head_ = QuantizedFormat::kInt8;
  std::optional<QuantizedFormat> embedding_;
  bool embedding_is_head_ = false;
};

// Of a model that processes share; find() where `num_ranks` is 1. kInvalidArgument if a rank's part
// cannot keep what the whole does, because it begins within a group of inputs.
Result<CodedMatrices> coded_matrices_of_ranks(
    const ModelConfig& config, const WeightSource& weights, int32_t num_ranks
);

}  // namespace millrace
