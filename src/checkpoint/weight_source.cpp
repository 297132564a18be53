#include "checkpoint/weight_source.h"

#include <fmt/format.h>

#include "base/check.h"
#include "checkpoint/printable.h"

namespace millrace {

int64_t TensorInfo::num_rows() const {
  return shape.size() >= 2 ? shape.front() : 1;
}

int64_t TensorInfo::row_length() const {
  int64_t length = 1;
  for (size_t i = shape.size() >= 2 ? 1 : 0; i < shape.size(); ++i) length *= shape[i];
  return length;
}

void check_rows(const TensorInfo& tensor, int64_t row_begin, int64_t num_rows, size_t num_values) {
  CHECK(
      row_begin >= 0 && num_rows >= 0 && row_begin <= tensor.num_rows() - num_rows,
      "rows outside of tensor " + tensor.name
  );
  CHECK(
      static_cast<int64_t>(num_values) == num_rows * tensor.row_length(),
      "rows of another length than those of tensor " + tensor.name
  );
}

Result<void> check_readable(const TensorInfo& tensor) {
  if (tensor.storage != StorageType::kOther) return {};
  return unsupported(
      fmt::format(
          "tensor '{}' has dtype {}, which is not supported yet as a weight "
          "(supported: F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS)",
          printable(tensor.name),
          tensor.storage_name
      ),
      printable(tensor.name)
  );
}

void WeightSource::read_codes(const TensorInfo& tensor, int64_t, int64_t, const StoredCodes&)
    const {
  CHECK(false, "no codes are stored of tensor " + tensor.name);
}

std::string format_shape(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace millrace
