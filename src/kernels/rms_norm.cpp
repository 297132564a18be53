#include "kernels/rms_norm.h"

#include "base/check.h"
#include "kernels/rms_norm_kernel.h"

namespace millrace {
namespace {

using RowFunction = void (*)(const RmsNormTask&, size_t, size_t);

RowFunction function_for(Isa isa) {
  switch (isa) {
    case Isa::kReference:
      return rms_norm_reference;
    case Isa::kAvx2:
      return rms_norm_avx2;
    case Isa::kAvx512:
      return rms_norm_avx512;
  }
  return rms_norm_reference;
}

}  // namespace

void rms_norm(const Executor& executor, const RmsNormArgs& args) {
  CHECK(args.x.num_columns == args.weight.size(), "one weight a column");
  CHECK(
      args.out.num_columns == args.x.num_columns && args.out.num_rows == args.x.num_rows,
      "out has the shape of x"
  );
  const RmsNormTask task = {
      .x = args.x.data,
      .x_stride = args.x.stride,
      .weight = args.weight.data(),
      .eps = args.eps,
      .out = args.out.data,
      .out_stride = args.out.stride,
      .num_columns = args.x.num_columns,
  };
  const RowFunction function = function_for(executor.isa);
  executor.pool.parallel_for(args.x.num_rows, [&](size_t begin, size_t end) {
    function(task, begin, end);
  });
}

}  // namespace millrace
