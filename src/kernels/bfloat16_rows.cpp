#include "kernels/bfloat16_rows.h"

#include "base/check.h"
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
void round_rows(const Executor& executor, ConstRows x, RowsOf<Out> out) {
  CHECK(
      out.num_rows == x.num_rows && out.num_columns == x.num_columns &&
          out.stride >= out.num_columns,
      "out has the shape of x"
  );
  const RowFunction<Out> function = kVersions<Out>.find(executor.isa);
  executor.for_row_ranges(x.num_rows, x.num_columns, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      function(x.row(row), x.num_columns, out.stride, out.row(row));
    }
  });
}

}  // namespace

void to_bfloat16_rows(const Executor& executor, ConstRows x, RowsOf<BFloat16> out) {
  round_rows(executor, x, out);
}

void round_to_bfloat16_rows(const Executor& executor, ConstRows x, Rows out) {
  round_rows(executor, x, out);
}

}  // namespace millrace
