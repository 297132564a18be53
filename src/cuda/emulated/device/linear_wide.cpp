#include "cuda/kernels/linear_wide.h"

#include "base/check.h"

namespace millrace::cuda {

bool is_for_linear_wide(const LinearTask& /*task*/) {
  return false;
}

void linear_wide(StreamHandle /*stream*/, const LinearTask& /*task*/) {
  CHECK(false, "no wgmma in emulation");
}

}  // namespace millrace::cuda
