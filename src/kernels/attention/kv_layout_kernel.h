// How keys and values lie in a block, as far as the instruction sets' files need to know it: see
// kv_view.h. A constant only (lanes.h).
#pragma once

#include <cstddef>

#include "tensor/dtype.h"

namespace millrace {

// Elements that lie side by side along what a sum runs over: pairs in bfloat16, as vdpbf16ps wants
// them. Keys are summed over head_dim, values over positions.
template <class Kv>
inline constexpr size_t kKvDepth = 1;
template <>
inline constexpr size_t kKvDepth<BFloat16> = 2;

}  // namespace millrace
