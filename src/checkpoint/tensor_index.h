// The tensors of one WeightSource, found by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "checkpoint/weight_source.h"

namespace millrace {

// Filled once, then read by any thread. Positions are those of tensors().
class TensorIndex {
 public:
  // kInvalidArgument naming the tensor that stands twice.
  static Result<TensorIndex> build(std::vector<TensorInfo> tensors);

  TensorIndex(TensorIndex&&) noexcept = default;
  TensorIndex& operator=(TensorIndex&&) noexcept = default;
  TensorIndex(const TensorIndex&) = delete;
  TensorIndex& operator=(const TensorIndex&) = delete;

  std::span<const TensorInfo> tensors() const { return tensors_; }
  const TensorInfo* find(std::string_view name) const;

  // REQUIRES: `tensor` is one of tensors(), or a copy of one.
  size_t position_of(const TensorInfo& tensor) const;

 private:
  TensorIndex() = default;

  std::vector<TensorInfo> tensors_;  // never changed again: positions_ views their names
  std::unordered_map<std::string_view, size_t> positions_;
};

}  // namespace millrace
