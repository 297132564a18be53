// Borrowed matrices of float32 activations: one token a row.
#pragma once

#include <cstddef>

namespace millrace {

// [num_rows, num_columns], row r at data + r * stride. A column slice keeps its matrix's stride.
template <class T>
struct RowsOf {
  T* data = nullptr;
  size_t num_rows = 0;
  size_t num_columns = 0;
  size_t stride = 0;

  T* row(size_t index) const { return data + index * stride; }
  RowsOf first(size_t count) const { return {data, count, num_columns, stride}; }
  RowsOf range(size_t begin, size_t count) const {
    return {row(begin), count, num_columns, stride};
  }
  RowsOf columns(size_t begin, size_t count) const {
    return {data + begin, num_rows, count, stride};
  }
  operator RowsOf<const T>() const { return {data, num_rows, num_columns, stride}; }
};

using Rows = RowsOf<float>;
using ConstRows = RowsOf<const float>;

}  // namespace millrace
