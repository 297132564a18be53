#include "cuda/kernels/attention_wide.h"

#include "base/check.h"

namespace millrace::cuda {

bool is_for_attention_wide(size_t /*head_dim*/) {
  return false;
}

void paged_attention_wide(StreamHandle /*stream*/, const PagedAttentionArgs& /*args*/) {
  CHECK(false, "no wgmma in emulation");
}

}  // namespace millrace::cuda
