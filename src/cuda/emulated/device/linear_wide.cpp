#include "cuda/kernels/linear_wide.h"

#include "base/check.h"

namespace millrace::cuda {

bool is_for_linear_wide(const LinearTask& /*task*/) {
  return false;
}

void linear_wide(StreamHandle /*stream*/, const LinearTask& /*task*/) {
  CHECK(false, "no wgmma in emulation");
}

bool is_for_linear_wide_quantized(const QuantizedTask& /*task*/) {
  return false;
}

template <class Codes>
void linear_wide_quantized(StreamHandle /*stream*/, const QuantizedTask& /*task*/) {
  CHECK(false, "no wgmma in emulation");
}

template void linear_wide_quantized<Int8Codes>(StreamHandle stream, const QuantizedTask& task);
template void linear_wide_quantized<Int4Codes>(StreamHandle stream, const QuantizedTask& task);

}  // namespace millrace::cuda
