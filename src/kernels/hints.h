// How kernels that read weights once ask memory for them.
#pragma once

#include <cstddef>

namespace millrace {

// How far ahead of what they multiply kernels ask for weights, into the first cache: those of
// quantized matrices for few tokens, which then read one panel after the other, and those of
// bfloat16 matrices for many. 0: they leave it to the processor, or have shorter hints of their
// own. What this processor was measured to be fastest with (docs/decisions/0021): 12 KiB on Zen 5,
// 0 elsewhere. No bit of a result depends on it.
[[nodiscard]] size_t best_hint_bytes();

}  // namespace millrace
