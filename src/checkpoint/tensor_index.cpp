#include "checkpoint/tensor_index.h"

#include <fmt/format.h>

#include <utility>

#include "base/check.h"
#include "checkpoint/printable.h"

namespace millrace {

Result<TensorIndex> TensorIndex::build(std::vector<TensorInfo> tensors) {
  TensorIndex index;
  // Moving a vector keeps its elements where they are, so that the views stay good.
  index.tensors_ = std::move(tensors);
  index.positions_.reserve(index.tensors_.size());
  for (size_t i = 0; i < index.tensors_.size(); ++i) {
    const std::string& name = index.tensors_[i].name;
    if (!index.positions_.emplace(name, i).second) {
      return invalid_argument(
          fmt::format("tensor '{}' stands twice", printable(name)), printable(name)
      );
    }
  }
  return index;
}

const TensorInfo* TensorIndex::find(std::string_view name) const {
  const auto found = positions_.find(name);
  return found == positions_.end() ? nullptr : &tensors_[found->second];
}

size_t TensorIndex::position_of(const TensorInfo& tensor) const {
  const auto found = positions_.find(tensor.name);
  CHECK(found != positions_.end(), "a tensor that this source does not hold: " + tensor.name);
  return found->second;
}

}  // namespace millrace
