// Activations rounded to bfloat16 (to nearest, ties to even), as matrices of that type take them.
// `norm`, where there is one, makes each row of x before it is read.
#pragma once

#include "kernels/bfloat16_rows_kernel.h"
#include "kernels/executor.h"
#include "kernels/rms_norm.h"
#include "kernels/rows.h"
#include "tensor/dtype.h"

namespace millrace {

// out = x, rounded; `out` has x's shape. Between a row's end and the next row's start zeros are
// written, so that pairs of inputs are whole. The rows are split over the threads.
void to_bfloat16_rows(
    const Executor& executor, ConstRows x, RowsOf<BFloat16> out, const RmsNormRows* norm = nullptr
);

// The same values as tiles of AMX, [ceil(num_rows / 16)][ceil(num_columns / 32)][min(16,
// num_rows)][32]. Rows that the last tiles have too many are not written.
void to_bfloat16_tiles(
    const Executor& executor, ConstRows x, BFloat16* tiles, const RmsNormRows* norm = nullptr
);

// The same values, widened again: for instructions that multiply floats.
void round_to_bfloat16_rows(
    const Executor& executor, ConstRows x, Rows out, const RmsNormRows* norm = nullptr
);

}  // namespace millrace
