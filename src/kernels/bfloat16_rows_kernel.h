// What bfloat16_rows.cpp asks of each instruction set. Plain data only (lanes.h).
#pragma once

#include <cstddef>

#include "tensor/dtype.h"

namespace millrace {

// A tile of inputs, as AMX reads it: of so many columns, and so many rows or all there are.
constexpr size_t kInputTileRows = 16;
constexpr size_t kInputTileColumns = 32;

// `out`: [size_padded], zeros from `size` on. Out: BFloat16 or float.
template <class Out>
void round_row_reference(const float* x, size_t size, size_t size_padded, Out* out);
template <class Out>
void round_row_avx2(const float* x, size_t size, size_t size_padded, Out* out);
template <class Out>
void round_row_avx512(const float* x, size_t size, size_t size_padded, Out* out);

}  // namespace millrace
