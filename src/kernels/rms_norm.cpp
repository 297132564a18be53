#include "kernels/rms_norm.h"

#include "base/check.h"
#include "kernels/dispatch.h"
#include "kernels/rms_norm_kernel.h"

namespace millrace {
namespace {

using RowFunction = void (*)(const RmsNormTask&, size_t, size_t);

constexpr IsaVersions<RowFunction> kVersions = {rms_norm_reference, rms_norm_avx2, rms_norm_avx512};

}  // namespace

RmsNormRows::RmsNormRows(Isa isa, const RmsNormArgs& args)
    : task_{
          .x = args.x.data,
          .x_stride = args.x.stride,
          .weight = args.weight.data(),
          .eps = args.eps,
          .out = args.out.data,
          .out_stride = args.out.stride,
          .num_columns = args.x.num_columns,
      },
      function_(kVersions.find(isa)) {
  CHECK(args.x.num_columns == args.weight.size(), "one weight a column");
  CHECK(
      args.out.num_columns == args.x.num_columns && args.out.num_rows == args.x.num_rows,
      "out has the shape of x"
  );
}

void rms_norm(const Executor& executor, const RmsNormArgs& args) {
  executor.for_row_ranges(args.x.num_rows, args.x.num_columns, RmsNormRows(executor.isa, args));
}

}  // namespace millrace
