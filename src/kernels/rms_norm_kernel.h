// What rms_norm.cpp and write_kv ask of each instruction set. Plain data only (lanes.h).
#pragma once

#include <cstddef>

namespace millrace {

struct RmsNormTask {
  const float* x;  // [num_rows, num_columns], rows x_stride apart
  size_t x_stride;
  const float* weight;  // [num_columns]
  float eps;
  float* out;
  size_t out_stride;
  size_t num_columns;
};

void rms_norm_reference(const RmsNormTask& task, size_t row_begin, size_t row_end);
void rms_norm_avx2(const RmsNormTask& task, size_t row_begin, size_t row_end);
void rms_norm_avx512(const RmsNormTask& task, size_t row_begin, size_t row_end);

// One row of the reference.
void rms_norm_row_reference(
    const float* x, const float* weight, float eps, size_t num_columns, float* out
);

}  // namespace millrace
