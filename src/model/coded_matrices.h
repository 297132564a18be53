// Which matrices of a model's layers other tools have stored in 4 bits, and how all of them are
// kept with --quantization uint4.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "checkpoint/weight_source.h"
#include "kernels/quantized/weight_matrix.h"
#include "model/config.h"

namespace millrace {

// Matrices that are multiplied as one (q, k and v; gate and up; those of all experts of a layer)
// are kept as one.
class CodedMatrices {
 public:
  // kNotFound for a matrix that is missing. kInvalidArgument where less than half of the layers'
  // weights are stored in 4 bits (WeightSource::scale_inputs); `where` is the first that is not.
  static Result<CodedMatrices> find(const ModelConfig& config, const WeightSource& source);

  // What keeps those that are stored in 4 bits.
  QuantizedFormat format() const { return format_; }

  // What keeps the matrix that the tensor `name` is a part of: the format of the layers, if all of
  // its tensors are stored in 4 bits; `dtype`, if one is stored as plain numbers; else int8, which
  // loses little of the blocks of more than 4 bits that files mix with others. REQUIRES: a matrix
  // of the layers that is no router.
  MatrixFormat format_of(std::string_view name, const WeightFormat& format) const;

  // "12 of 80 matrices are stored otherwise, and kept as int8"; empty: none is.
  std::string others(DType dtype) const;

  // kInvalidArgument naming a tensor of which `other`, the same model's, keeps the matrix in
  // another way.
  Result<void> check_same(const CodedMatrices& other) const;

 private:
  enum class Kept { kCodes, kRounded, kPlain };  // the last of its tensors decides
  struct Matrix {
    Kept kept = Kept::kCodes;
    std::string tensor;  // the one that decided
  };

  QuantizedFormat format_ = QuantizedFormat::kUint4;
  std::map<std::string, Matrix> matrices_;  // by what their tensors' names have in common
};

// Of a model that processes share; find() where `num_ranks` is 1. kInvalidArgument if a rank's part
// cannot keep what the whole does, because it begins within a group of inputs.
Result<CodedMatrices> coded_matrices_of_ranks(
    const ModelConfig& config, const WeightSource& weights, int32_t num_ranks
);

}  // namespace millrace
