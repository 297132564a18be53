#include "kernels/bfloat16_rows.h"

#include <algorithm>

#include "base/check.h"
#include "base/math.h"
#include "kernels/bfloat16_rows_kernel.h"
#include "kernels/dispatch.h"

namespace millrace {
namespace {

template <class Out>
using RowFunction = void (*)(const float*, size_t, size_t, Out*);

template <class Out>
constexpr IsaVersions<RowFunction<Out>> kVersions = {
    round_row_reference<Out>, round_row_avx2<Out>, round_row_avx512<Out>};

template <class Out>
void round_rows(const Executor& executor, ConstRows x, RowsOf<Out> out, const RmsNormRows* norm) {
  CHECK(
      out.num_rows == x.num_rows && out.num_columns == x.num_columns &&
          out.stride >= out.num_columns,
      "out has the shape of x"
  );
  const RowFunction<Out> function = kVersions<Out>.find(executor.isa);
  executor.for_row_ranges(x.num_rows, x.num_columns, [&](size_t begin, size_t end) {
    if (norm != nullptr) (*norm)(begin, end);
    for (size_t row = begin; row < end; ++row) {
      function(x.row(row), x.num_columns, out.stride, out.row(row));
    }
  });
}

}  // namespace

void to_bfloat16_rows(
    const Executor& executor, ConstRows x, RowsOf<BFloat16> out, const RmsNormRows* norm
) {
  round_rows(executor, x, out, norm);
}

void to_bfloat16_tiles(
    const Executor& executor, ConstRows x, BFloat16* tiles, const RmsNormRows* norm
) {
  const RowFunction<BFloat16> function = kVersions<BFloat16>.find(executor.isa);
  const size_t row_of_tiles = round_up(x.num_columns, kInputTileColumns);
  const size_t tile_size = std::min(x.num_rows, kInputTileRows) * kInputTileColumns;
  executor.for_row_ranges(x.num_rows, x.num_columns, [&](size_t begin, size_t end) {
    if (norm != nullptr) (*norm)(begin, end);
    for (size_t row = begin; row < end;) {
      const size_t rest_of_tile = kInputTileRows - row % kInputTileRows;
      const size_t row_end = std::min(end, row + rest_of_tile);
      BFloat16* tile = tiles + row / kInputTileRows * kInputTileRows * row_of_tiles;
      for (size_t column = 0; column < x.num_columns; column += kInputTileColumns) {
        const size_t count = std::min(x.num_columns - column, kInputTileColumns);
        for (size_t i = row; i < row_end; ++i) {
          BFloat16* out = tile + i % kInputTileRows * kInputTileColumns;
          function(x.row(i) + column, count, kInputTileColumns, out);
        }
        tile += tile_size;
      }
      row = row_end;
    }
  });
}

void round_to_bfloat16_rows(
    const Executor& executor, ConstRows x, Rows out, const RmsNormRows* norm
) {
  round_rows(executor, x, out, norm);
}

}  // namespace millrace
